package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrNoPlace is wrapped by the error for content for which the version has no field.
var ErrNoPlace = errors.New("has no place for it")

// EncodeCPU returns a CPU file of a version, with the checksums that its readers compute. Content
// for which the version has no place is an error, so that nothing is lost silently: pools before
// V3, and container ids after V1.
func EncodeCPU(c *CPU, v Version) ([]byte, error) {
	noPlace := func(what string) ([]byte, error) {
		return nil, fmt.Errorf("%s: version %s of the CPU file %w", what, v, ErrNoPlace)
	}
	switch {
	case len(c.Pools) > 0 && v < CPUManager.PoolsSince():
		return noPlace("the pools of pods")
	case len(c.ByID) > 0 && v != 1:
		return noPlace("entries by container id")
	case len(c.Entries) > 0 && v == 1:
		return noPlace("entries by pod")
	}
	switch v {
	case 1:
		out := cpuV1{PolicyName: c.Policy, DefaultCPUSet: c.Default, Entries: present(c.ByID)}
		out.Checksum = out.sum(cpuType)
		return json.Marshal(out)
	case 3:
		out := cpuV3{PolicyName: c.Policy, DefaultCPUSet: c.Default, Entries: present(c.Entries), PodEntries: cpuPools(c.Pools)}
		out.Checksum = out.sum(cpuType)
		return json.Marshal(out)
	case 2, 4:
	default:
		return nil, fmt.Errorf("there is no version %s of the CPU file", v)
	}
	out := cpuV2{PolicyName: c.Policy, DefaultCPUSet: c.Default, Entries: present(c.Entries)}
	out.Checksum = out.sum(cpuType)
	if v == 2 {
		return json.Marshal(out)
	}
	return withData(out, cpuData{out.PolicyName, out.DefaultCPUSet, out.Entries, cpuPools(c.Pools)})
}

// EncodeMemory returns a memory file of a version. See EncodeCPU.
func EncodeMemory(m *Memory, v Version) ([]byte, error) {
	if len(m.Pools) > 0 && v < MemoryManager.PoolsSince() {
		return nil, fmt.Errorf("the pools of pods: version %s of the memory file %w", v, ErrNoPlace)
	}
	switch v {
	case 1, 3:
	case 2:
		out := memoryV2{PolicyName: m.Policy, MachineState: present(m.Nodes), Entries: present(m.Entries), PodEntries: memoryPools(m.Pools)}
		out.Checksum = out.sum(memoryType)
		return json.Marshal(out)
	default:
		return nil, fmt.Errorf("there is no version %s of the memory file", v)
	}
	out := memoryV1{PolicyName: m.Policy, MachineState: present(m.Nodes), Entries: present(m.Entries)}
	out.Checksum = out.sum(memoryType)
	if v == 1 {
		return json.Marshal(out)
	}
	return withData(out, memoryData{out.PolicyName, out.MachineState, out.Entries, memoryPools(m.Pools)})
}

// present returns the map that a reader has if the file omits an empty map.
func present[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// withData returns the last version: the fields of old, and the whole content as text.
func withData(old, content any) ([]byte, error) {
	outer, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	data := string(text)
	more, err := json.Marshal(last{Data: &data, DataChecksum: dataSum(data)})
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(string(outer), "}") + "," + strings.TrimPrefix(string(more), "{")), nil
}
