package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// ErrCorrupted is the kubelet's own message for a wrong checksum.
var ErrCorrupted = errors.New("checkpoint is corrupted")

// Kubelet has the properties of a kubelet that decide which files it can read.
type Kubelet struct {
	// Minor is the minor release: 36 is Kubernetes 1.36.
	Minor int
	// PodLevelManagers is the kubelet's gate PodLevelResourceManagers. Releases before 1.36 do not
	// have it.
	PodLevelManagers bool
}

// The releases whose files are known. The memory file of 1.21 has the same newest version as that
// of 1.35.
const (
	oldestRelease  = 21
	firstWithPools = 36
	firstWithData  = 37
	newestRelease  = firstWithData
)

// ParseMinor parses the version of a kubelet, such as 1.36, v1.36.3, v1.36.3+k3s1 or
// kubelet-1.36, and returns its minor release. The error names the versions whose files are known.
func ParseMinor(text string) (int, error) {
	number := strings.TrimPrefix(text, "kubelet-")
	v, err := version.ParseSemantic(number)
	if err != nil {
		v, err = version.ParseSemantic(number + ".0")
	}
	switch {
	case err != nil || v.Major() != 1:
		return 0, fmt.Errorf("%q: expected a version of the kubelet, such as 1.36 or v1.36.3", text)
	case v.Minor() < oldestRelease || v.Minor() > newestRelease:
		return 0, fmt.Errorf("%s: the files of 1.%d to 1.%d are known", text, oldestRelease, newestRelease)
	}
	return int(v.Minor()), nil
}

func (k Kubelet) String() string {
	switch {
	case k.Minor < firstWithPools:
		return fmt.Sprintf("1.%d", k.Minor)
	case k.PodLevelManagers:
		return fmt.Sprintf("1.%d with the gate PodLevelResourceManagers", k.Minor)
	}
	return fmt.Sprintf("1.%d without the gate PodLevelResourceManagers", k.Minor)
}

// Writes returns the version that the kubelet writes (R-ST-2, R-37-5).
func (k Kubelet) Writes(m Manager) Version {
	switch {
	case k.Minor >= firstWithData:
		return m.newest()
	case k.CountsPools():
		return m.PoolsSince()
	}
	return m.PoolsSince() - 1
}

// CountsPools reports whether the kubelet counts the pools of pods, as it does from 1.36 on with
// its gate on. 1.37 always writes a version with a place for pools, whether its gate is on or off
// (R-37-5), but ignores pools without the gate.
func (k Kubelet) CountsPools() bool { return k.Minor >= firstWithPools && k.PodLevelManagers }

// Attempt is one version that a kubelet tried without success, with the error in the kubelet's
// words. The kubelet reports only the last attempt.
type Attempt struct {
	Version Version
	Err     error
	// Checksum is set if the file has the form of this version and only the checksum is wrong.
	Checksum bool
}

// Loaded is a file as a kubelet has it in memory after reading. Either CPU or Memory is set.
type Loaded struct {
	Version Version
	CPU     *CPU
	Memory  *Memory
}

// Load reads a file of a manager as the kubelet does at its start. If it fails, Loaded is nil and
// the list has every attempt with its reason. Otherwise the list has the attempts before the
// successful one. Load does not decide whether the kubelet would accept what it read.
func (k Kubelet) Load(m Manager, data []byte) (*Loaded, []Attempt) {
	var failed []Attempt
	rest, read, typ := &leftover{}, k.readCPU, cpuType // The kubelet's errors name the type with the version.
	if m == MemoryManager {
		read, typ = k.readMemory, memoryType
	}
	for v := k.Writes(m); v >= k.oldest(m); v-- { // The kubelet's order (R-ST-31, R-ST-33, R-37-5).
		loaded, err := read(v, data, rest)
		if err == nil {
			loaded.Version = v
			return loaded, failed
		}
		err = inKubeletsWords(err, typ+v.String())
		damaged := v == m.newest() && hasData(data)
		if damaged {
			err = fmt.Errorf("could not load v%d checkpoint: %w", v, err)
		}
		failed = append(failed, Attempt{Version: v, Err: err, Checksum: errors.Is(err, ErrCorrupted)})
		if damaged {
			break // It does not fall back to the part for older kubelets.
		}
		if k.Minor >= firstWithData {
			rest = &leftover{}
		}
	}
	return nil, failed
}

// oldest returns the oldest version that the kubelet reads. 1.37 does not read the first version of
// the CPU Manager.
func (k Kubelet) oldest(m Manager) Version {
	if k.Minor >= firstWithData && m == CPUManager {
		return 2
	}
	return 1
}

// hasData reports whether a file has the part that only the newest version has, with text or a
// checksum.
func hasData(data []byte) bool {
	var part struct {
		Data         any    `json:"data"`
		DataChecksum uint64 `json:"dataChecksum"`
	}
	err := json.Unmarshal(data, &part)
	mismatch := (*json.UnmarshalTypeError)(nil)
	if err != nil && !errors.As(err, &mismatch) {
		return false
	}
	text, _ := part.Data.(string)
	return text != "" || part.DataChecksum != 0
}

// leftover is what a failed attempt leaves for the later ones: podEntries that were read are kept
// although their version failed (R-ST-39). 1.37 begins each attempt with nothing.
type leftover struct {
	cpu    map[string]cpuPool
	memory map[string]memoryPool
}

func (k Kubelet) readCPU(v Version, data []byte, rest *leftover) (*Loaded, error) {
	switch v {
	case 1:
		c := newCPUV1()
		if err := json.Unmarshal(data, c); err != nil {
			return nil, err
		}
		return &Loaded{CPU: &CPU{Policy: c.PolicyName, Default: c.DefaultCPUSet, ByID: c.Entries, Pools: pools(rest.cpu)}},
			k.legacy(c.Checksum, c.sum, cpuType, v)
	case 2:
		c := newCPUV2()
		if err := json.Unmarshal(data, c); err != nil {
			return nil, err
		}
		return &Loaded{CPU: &CPU{Policy: c.PolicyName, Default: c.DefaultCPUSet, Entries: c.Entries, Pools: pools(rest.cpu)}},
			k.legacy(c.Checksum, c.sum, cpuType, v)
	case 3:
		c := newCPUV3()
		err := json.Unmarshal(data, c)
		rest.cpu = c.PodEntries
		if err == nil && c.Checksum != c.sum(cpuType) {
			err = ErrCorrupted
		}
		return &Loaded{CPU: c.content()}, err
	}
	c := newCPUV4()
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	inner := newCPUV3()
	if err := c.content(inner); err != nil {
		return nil, err
	}
	return &Loaded{CPU: inner.content()}, nil
}

func (k Kubelet) readMemory(v Version, data []byte, rest *leftover) (*Loaded, error) {
	switch v {
	case 1:
		m := newMemoryV1()
		if err := json.Unmarshal(data, m); err != nil {
			return nil, err
		}
		return &Loaded{Memory: &Memory{Policy: m.PolicyName, Nodes: m.MachineState, Entries: m.Entries, Pools: blocks(rest.memory)}},
			k.legacy(m.Checksum, m.sum, memoryType, v)
	case 2:
		m := newMemoryV2()
		err := json.Unmarshal(data, m)
		rest.memory = m.PodEntries
		if err == nil && m.Checksum != m.sum(memoryType) {
			err = ErrCorrupted
		}
		return &Loaded{Memory: m.content()}, err
	}
	m := newMemoryV3()
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	inner := newMemoryV2()
	if err := m.content(inner); err != nil {
		return nil, err
	}
	return &Loaded{Memory: inner.content()}, nil
}

// legacy verifies the checksum of the versions in which 0 means no checksum (R-ST-25). The Memory
// Manager accepts 0 from 1.36 on. Kubernetes 1.36 without its gate also accepts the checksum under
// the name with the version.
func (k Kubelet) legacy(stated uint64, sum func(string) uint64, typeName string, v Version) error {
	if none := stated == 0 && (typeName == cpuType || k.Minor >= firstWithPools); none || stated == sum(typeName) {
		return nil
	}
	versioned := v == 2 || typeName == memoryType
	if versioned && k.Minor == firstWithPools && !k.PodLevelManagers && stated == sum(typeName+v.String()) {
		return nil
	}
	return ErrCorrupted
}

// errNoData is the error for a file without the field data, which means that it is of an older
// version.
var errNoData = errors.New(`there is no field "data"`)

// content decodes the text in the last version into the given object.
func (l *last) content(into any) error {
	switch {
	case l.Data == nil:
		return errNoData
	case l.DataChecksum != dataSum(*l.Data):
		return ErrCorrupted
	}
	return json.Unmarshal([]byte(*l.Data), into)
}

func (c *cpuV3) content() *CPU {
	return &CPU{Policy: c.PolicyName, Default: c.DefaultCPUSet, Entries: c.Entries, Pools: pools(c.PodEntries)}
}

func (m *memoryV2) content() *Memory {
	return &Memory{Policy: m.PolicyName, Nodes: m.MachineState, Entries: m.Entries, Pools: blocks(m.PodEntries)}
}

// inKubeletsWords replaces the type name in an error of encoding/json by the kubelet's name for the
// type, because people search for the kubelet's message.
func inKubeletsWords(err error, typeName string) error {
	mismatch := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &mismatch) {
		return err
	}
	if mismatch.Field == "" {
		return fmt.Errorf("json: cannot unmarshal %s into Go value of type state.%s", mismatch.Value, typeName)
	}
	return fmt.Errorf("json: cannot unmarshal %s into Go struct field %s.%s of type %v", mismatch.Value, typeName, mismatch.Field, mismatch.Type)
}
