package state

import (
	"encoding/json"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// These types are the JSON of the versions, field by field in the order in which the kubelet writes
// them. Decoding into them with encoding/json, as the kubelet does, accepts the same unusual texts:
// nulls, missing and repeated fields, and names in another case.

type cpuV1 struct {
	PolicyName    string            `json:"policyName"`
	DefaultCPUSet string            `json:"defaultCpuSet"`
	Entries       map[string]string `json:"entries,omitempty"`
	Checksum      uint64            `json:"checksum"`
}

type cpuV2 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      uint64                       `json:"checksum"`
}

type cpuV3 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    map[string]cpuPool           `json:"podEntries,omitempty"`
	Checksum      uint64                       `json:"checksum"`
}

// cpuData is the content of the field data of V4.
type cpuData struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    map[string]cpuPool           `json:"podEntries,omitempty"`
}

// last has the fields that the last version adds to those of an older one. Data is a pointer, so
// that an empty text differs from a missing one.
type last struct {
	Data         *string `json:"data"`
	DataChecksum uint64  `json:"dataChecksum"`
}

type cpuV4 struct {
	cpuV2
	last
}

type memoryV1 struct {
	PolicyName   string                        `json:"policyName"`
	MachineState map[int]*NodeState            `json:"machineState"`
	Entries      map[string]map[string][]Block `json:"entries,omitempty"`
	Checksum     uint64                        `json:"checksum"`
}

type memoryV2 struct {
	PolicyName   string                        `json:"policyName"`
	MachineState map[int]*NodeState            `json:"machineState"`
	Entries      map[string]map[string][]Block `json:"entries,omitempty"`
	PodEntries   map[string]memoryPool         `json:"podEntries,omitempty"`
	Checksum     uint64                        `json:"checksum"`
}

// memoryData is the content of the field data of V3.
type memoryData struct {
	PolicyName   string                        `json:"policyName"`
	MachineState map[int]*NodeState            `json:"machineState"`
	Entries      map[string]map[string][]Block `json:"entries,omitempty"`
	PodEntries   map[string]memoryPool         `json:"podEntries,omitempty"`
}

type memoryV3 struct {
	memoryV1
	last
}

// cpuPool is one of podEntries. The checksum covers the set and not its text (R-ST-21).
type cpuPool struct{ set cpuset.Set }

type cpuPoolText struct {
	CPUSet string `json:"cpuSet,omitempty"`
}

func (p cpuPool) MarshalJSON() ([]byte, error) {
	return json.Marshal(cpuPoolText{p.set.String()})
}

func (p *cpuPool) UnmarshalJSON(data []byte) error {
	var text cpuPoolText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	set, err := cpuset.Parse(text.CPUSet)
	if err != nil {
		return err
	}
	p.set = set
	return nil
}

type memoryPool struct {
	MemoryBlocks []Block `json:"memoryBlocks,omitempty"`
}

// The kubelet creates the maps before it decodes into them: a missing field is empty, and only null
// is nil (R-ST-24).

func newCPUV1() *cpuV1 { return &cpuV1{Entries: map[string]string{}} }

func newCPUV2() *cpuV2 { return &cpuV2{Entries: map[string]map[string]string{}} }

func newCPUV3() *cpuV3 {
	return &cpuV3{Entries: map[string]map[string]string{}, PodEntries: map[string]cpuPool{}}
}

func newCPUV4() *cpuV4 { return &cpuV4{cpuV2: *newCPUV2()} }

func newMemoryV1() *memoryV1 {
	return &memoryV1{MachineState: map[int]*NodeState{}, Entries: map[string]map[string][]Block{}}
}

func newMemoryV2() *memoryV2 {
	return &memoryV2{MachineState: map[int]*NodeState{}, Entries: map[string]map[string][]Block{}, PodEntries: map[string]memoryPool{}}
}

func newMemoryV3() *memoryV3 { return &memoryV3{memoryV1: *newMemoryV1()} }

func pools(from map[string]cpuPool) map[string]cpuset.Set {
	out := make(map[string]cpuset.Set, len(from))
	for uid, pool := range from {
		out[uid] = pool.set
	}
	return out
}

func cpuPools(from map[string]cpuset.Set) map[string]cpuPool {
	out := make(map[string]cpuPool, len(from))
	for uid, set := range from {
		out[uid] = cpuPool{set}
	}
	return out
}

func blocks(from map[string]memoryPool) map[string][]Block {
	out := make(map[string][]Block, len(from))
	for uid, pool := range from {
		out[uid] = pool.MemoryBlocks
	}
	return out
}

func memoryPools(from map[string][]Block) map[string]memoryPool {
	out := make(map[string]memoryPool, len(from))
	for uid, list := range from {
		if len(list) == 0 {
			list = nil // an empty list is omitted, and an omitted list is read as nil
		}
		out[uid] = memoryPool{list}
	}
	return out
}
