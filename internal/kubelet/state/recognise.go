package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

// MaxSize is the maximum size of a file, in bytes. 500 pods of four containers need a tenth of it.
const MaxSize = 4 << 20

// The errors for a text that Recognise rejects. Every error of Recognise wraps one of them.
var (
	// ErrDamaged means that the text is, or was, a state file of the kubelet but cannot be read.
	ErrDamaged = errors.New("damaged")
	// ErrForeign means that the text is something else.
	ErrForeign = errors.New("not a CPU or memory state of the kubelet")
)

// Checksum is one checksum of a file.
type Checksum struct {
	// Stated is the number in the file. Computed is the number that it should be. In versions in
	// which 0 means "not checked", Stated is 0 for an unchecked file.
	Stated, Computed uint64
	// Unchecked is set if the file has no checksum and its version does not require one.
	Unchecked bool
}

// Valid reports whether a reader accepts the checksum.
func (c Checksum) Valid() bool { return c.Unchecked || c.Stated == c.Computed }

func (c Checksum) String() string {
	switch {
	case c.Unchecked:
		return "absent, and not asked for"
	case c.Stated == c.Computed:
		return fmt.Sprintf("%d, valid", c.Stated)
	}
	return fmt.Sprintf("%d, but the content has %d", c.Stated, c.Computed)
}

// File is a recognised file, whichever kubelet can read it. Either CPU or Memory is set.
type File struct {
	Manager Manager
	Version Version
	CPU     *CPU
	Memory  *Memory
	// Checksum is the checksum of the fields. In the last version it is the checksum for older
	// readers.
	Checksum Checksum
	// Data is the checksum of the text in the last version, which is what readers of that version
	// use. It is nil for other versions.
	Data *Checksum
	// Unknown are the fields that no version has.
	Unknown []UnknownField
}

// UnknownField is a field that no known version has, with its value as JSON.
type UnknownField struct{ Path, Value string }

// Valid reports whether the checksum that covers the content is valid.
func (f *File) Valid() bool {
	if f.Data != nil {
		return f.Data.Valid()
	}
	return f.Checksum.Valid()
}

// Unprotected explains why a change of the content would not have been detected: its checksum is
// broken, or it has none. It is empty if a valid checksum covers the content.
func (f *File) Unprotected() string {
	switch {
	case f.Data != nil && !f.Data.Valid():
		return fmt.Sprintf("its dataChecksum is %s", *f.Data)
	case f.Data != nil:
		return ""
	case f.Checksum.Stated == 0:
		return "it has no checksum"
	case !f.Checksum.Valid():
		return fmt.Sprintf("its checksum is %s", f.Checksum)
	}
	return ""
}

// Recognise identifies a text. The checksum may be wrong, but the text must be readable: errors
// wrap ErrDamaged or ErrForeign. Two versions without entries differ only in the checksum. If the
// checksum is right for neither, the older version is assumed.
func Recognise(data []byte) (*File, error) {
	m, fields, err := identify(data)
	if err != nil {
		return nil, err
	}
	f := &File{Manager: m}
	if m == CPUManager {
		err = f.recogniseCPU(data, fields)
	} else {
		err = f.recogniseMemory(data, fields)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	f.Unknown = unknownFields(f, data)
	return f, nil
}

// identify returns the manager according to the fields that only its files have.
func identify(data []byte) (Manager, map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	switch trimmed := bytes.TrimSpace(data); {
	case len(data) > MaxSize:
		return 0, nil, fmt.Errorf("%w: it has %d bytes, a state has at most %d", ErrForeign, len(data), MaxSize)
	case len(trimmed) == 0:
		return 0, nil, fmt.Errorf("%w: it is empty", ErrDamaged)
	case trimmed[0] != '{':
		return 0, nil, fmt.Errorf("%w: it is no JSON object", ErrForeign)
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		// The first bytes show whether an incomplete text was a state.
		head := string(data[:min(len(data), 256)])
		if strings.Contains(head, `"defaultCpuSet"`) || strings.Contains(head, `"machineState"`) {
			return 0, nil, fmt.Errorf("%w: %w", ErrDamaged, explain(err, len(data)))
		}
		return 0, nil, fmt.Errorf("%w: %w", ErrForeign, explain(err, len(data)))
	}
	for name := range fields {
		switch strings.ToLower(name) {
		case "defaultcpuset":
			return CPUManager, fields, nil
		case "machinestate":
			return MemoryManager, fields, nil
		}
	}
	// It has neither CPUs nor NUMA nodes.
	what := "it is some other JSON"
	switch {
	case has(fields, "Data"):
		what = "it is the kubelet's list of devices (kubelet_internal_checkpoint or dra_manager_state)"
	case string(fields["format"]) == `"paddock-state"`:
		what = "it is a state of Paddock"
	case has(fields, "kind"):
		what = "it is a Kubernetes object of kind " + string(fields["kind"])
	case has(fields, "policyName"):
		what = `it has neither "defaultCpuSet" nor "machineState"`
	}
	return 0, nil, fmt.Errorf("%w: %s", ErrForeign, what)
}

func explain(err error, size int) error {
	syntax := (*json.SyntaxError)(nil)
	switch {
	case errors.As(err, &syntax) && int(syntax.Offset) >= size:
		return fmt.Errorf("it is cut off after %d bytes", size)
	case errors.As(err, &syntax):
		return fmt.Errorf("JSON syntax error at byte %d: %w", syntax.Offset, syntax)
	}
	return malformed.JSON(nil, err)
}

// decode decodes a text that is valid JSON.
func decode(data []byte, into any) error { return malformed.JSON(data, json.Unmarshal(data, into)) }

func (f *File) recogniseCPU(data []byte, fields map[string]json.RawMessage) error {
	if has(fields, "data") {
		c := newCPUV4()
		if err := decode(data, c); err != nil {
			return err
		}
		inner := newCPUV3()
		f.Version = 4
		f.Checksum = checksum(c.Checksum, c.cpuV2.sum(cpuType), true)
		err := f.data(&c.last, inner)
		f.CPU = inner.content()
		return err
	}
	// In V1 each entry is a string and not an object.
	var entries map[string]json.RawMessage
	isText := json.Unmarshal(fields["entries"], &entries) == nil && len(entries) > 0
	for _, value := range entries {
		isText = isText && bytes.HasPrefix(value, []byte(`"`))
	}
	if v1 := newCPUV1(); isText {
		if err := decode(data, v1); err != nil {
			return err
		}
		f.Version, f.CPU = 1, &CPU{Policy: v1.PolicyName, Default: v1.DefaultCPUSet, ByID: v1.Entries}
		f.Checksum = checksum(v1.Checksum, v1.sum(cpuType), true)
		return nil
	}
	v3, v2 := newCPUV3(), newCPUV2()
	if err := decode(data, v3); err != nil {
		return err
	}
	if err := decode(data, v2); err != nil {
		return err
	}
	f.CPU = v3.content()
	if f.withoutData(fields, 4, checksum(v2.Checksum, v2.sum(cpuType), true)) {
		return nil
	}
	f.Version, f.Checksum = 2, legacyChecksum(v2.Checksum, v2.sum, cpuType, 2)
	if sum := v3.sum(cpuType); v3.Checksum == sum || (has(fields, "podEntries") && (v2.Checksum == 0 || !f.Checksum.Valid())) {
		f.Version, f.Checksum = 3, checksum(v3.Checksum, sum, false)
	}
	if v1 := newCPUV1(); f.Version == 2 && !f.Checksum.Valid() && json.Unmarshal(data, v1) == nil && v1.Checksum == v1.sum(cpuType) {
		f.Version, f.Checksum = 1, checksum(v1.Checksum, v1.sum(cpuType), true)
	}
	return nil
}

func (f *File) recogniseMemory(data []byte, fields map[string]json.RawMessage) error {
	if has(fields, "data") {
		m := newMemoryV3()
		if err := decode(data, m); err != nil {
			return err
		}
		inner := newMemoryV2()
		f.Version = 3
		f.Checksum = checksum(m.Checksum, m.memoryV1.sum(memoryType), true)
		err := f.data(&m.last, inner)
		f.Memory = inner.content()
		return err
	}
	v2, v1 := newMemoryV2(), newMemoryV1()
	if err := decode(data, v2); err != nil {
		return err
	}
	if err := decode(data, v1); err != nil {
		return err
	}
	f.Memory = v2.content()
	if f.withoutData(fields, 3, checksum(v1.Checksum, v1.sum(memoryType), true)) {
		return nil
	}
	f.Version, f.Checksum = 1, legacyChecksum(v1.Checksum, v1.sum, memoryType, 1)
	if sum := v2.sum(memoryType); v2.Checksum == sum || (has(fields, "podEntries") && (v1.Checksum == 0 || !f.Checksum.Valid())) {
		f.Version, f.Checksum = 2, checksum(v2.Checksum, sum, false)
	}
	return nil
}

// withoutData handles a file that has the field dataChecksum but not the field data. It treats it
// as a file of the last version whose data is lost. The rest is the part for older readers, without
// pools.
func (f *File) withoutData(fields map[string]json.RawMessage, v Version, older Checksum) bool {
	var stated uint64
	if !has(fields, "dataChecksum") || json.Unmarshal(fields["dataChecksum"], &stated) != nil {
		return false
	}
	missing := checksum(stated, dataSum(""), false)
	f.Version, f.Checksum, f.Data = v, older, &missing
	return true
}

// data decodes the text in the last version, even if its checksum is wrong.
func (f *File) data(l *last, into any) error {
	if l.Data == nil {
		return errors.New(`its field "data" is null`)
	}
	sum := checksum(l.DataChecksum, dataSum(*l.Data), false)
	f.Data = &sum
	if err := json.Unmarshal([]byte(*l.Data), into); err != nil {
		return fmt.Errorf(`its field "data": %w`, explain(err, len(*l.Data)))
	}
	return nil
}

func checksum(stated, computed uint64, zeroIsNone bool) Checksum {
	return Checksum{Stated: stated, Computed: computed, Unchecked: zeroIsNone && stated == 0}
}

// legacyChecksum also accepts the checksum under the name with the version (R-ST-25).
func legacyChecksum(stated uint64, sum func(string) uint64, typeName string, v Version) Checksum {
	if versioned := sum(typeName + v.String()); stated == versioned {
		return Checksum{Stated: stated, Computed: versioned}
	}
	return checksum(stated, sum(typeName), true)
}

func has(fields map[string]json.RawMessage, name string) bool {
	_, is := fields[name]
	return is
}

// Readers returns the kubelets that can read the text, out of those that differ in it: 1.35 and
// older, and 1.36 and 1.37 with and without their gate. It considers only reading: whether such a
// kubelet then starts depends on its machine and configuration.
func Readers(m Manager, data []byte) []Kubelet {
	var readers []Kubelet
	for _, k := range Kubelets() {
		if loaded, _ := k.Load(m, data); loaded != nil {
			readers = append(readers, k)
		}
	}
	return readers
}

// Kubelets returns the kubelets that differ in what they read. The first one represents all older
// kubelets.
func Kubelets() []Kubelet {
	return []Kubelet{
		{Minor: firstWithPools - 1},
		{Minor: firstWithPools},
		{Minor: firstWithPools, PodLevelManagers: true},
		{Minor: firstWithData},
		{Minor: firstWithData, PodLevelManagers: true},
	}
}
