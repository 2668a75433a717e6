package state

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

//go:generate go tool stringer -type=Manager -linecomment -output=enum_string.go

// Manager is the manager of the kubelet that owns a file.
type Manager int

// The managers that have a file. The files of the CPU and Memory Managers have versions. The other
// two are about devices (DeviceFile).
const (
	CPUManager    Manager = iota // CPU Manager
	MemoryManager                // Memory Manager
	DRAManager                   // DRA manager
	DeviceManager                // Device Manager
)

// HasDevices reports whether the manager's file is a DeviceFile.
func (m Manager) HasDevices() bool { return m == DRAManager || m == DeviceManager }

// FileName returns the name of the file in the kubelet's root directory (R-ST-1). The file of the
// Device Manager is in the subdirectory device-plugins.
func (m Manager) FileName() string {
	return [...]string{
		CPUManager: "cpu_manager_state", MemoryManager: "memory_manager_state",
		DRAManager: "dra_manager_state", DeviceManager: "kubelet_internal_checkpoint",
	}[m]
}

// newest returns the newest known version of the manager's file.
func (m Manager) newest() Version {
	if m == MemoryManager {
		return 3
	}
	return 4
}

// Version is the version of a file, counted separately for each manager: V1 to V4 for CPUs, V1 to
// V3 for memory.
type Version int

func (v Version) String() string { return fmt.Sprintf("V%d", int(v)) }

// PoolsSince returns the first version that has a place for the pools of pods. The version after it
// is the last one; it has the whole content as text.
func (m Manager) PoolsSince() Version { return m.newest() - 1 }

// CPU is the content of a CPU file of any version. Lists of CPUs are the text of the file.
type CPU struct {
	Policy string
	// Default is the node shared pool.
	Default string
	// Entries maps pod UID and container name to a list of CPUs.
	Entries map[string]map[string]string
	// Pools maps pod UIDs to the CPUs of the pods. Versions before V3 have none.
	Pools map[string]cpuset.Set
	// ByID maps container ids to lists of CPUs. These are the entries of V1.
	ByID map[string]string
}

// Memory is the content of a memory file of any version. Amounts are in bytes.
type Memory struct {
	Policy string
	// Nodes is the memory accounting by NUMA node. A nil NodeState is a null in the file.
	Nodes map[int]*NodeState
	// Entries maps pod UID and container name to blocks.
	Entries map[string]map[string][]Block
	// Pools maps pod UIDs to the blocks of the pods. V1 has none.
	Pools map[string][]Block
}

// NodeState is the memory accounting of one NUMA node (R-MEM-10).
type NodeState struct {
	Assignments int               `json:"numberOfAssignments"`
	Tables      map[string]*Table `json:"memoryMap"`
	Cells       []int             `json:"cells"`
}

// Table is the accounting of one type of memory on one NUMA node, in bytes.
type Table struct {
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// Block is memory of one type on some NUMA nodes.
type Block struct {
	Nodes []int  `json:"numaAffinity"`
	Type  string `json:"type"`
	Size  uint64 `json:"size"`
}

// HasEntries reports whether the file assigns CPUs to any container.
func (c *CPU) HasEntries() bool { return len(c.Entries) > 0 || len(c.ByID) > 0 }
