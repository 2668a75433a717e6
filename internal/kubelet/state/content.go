package state

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

//go:generate go tool stringer -type=Manager -linecomment -output=enum_string.go

// Manager is whose state a file has.
type Manager int

// The managers that keep a file. Those of CPUs and memory have versions; the other two are about
// devices (DeviceFile).
const (
	CPUManager    Manager = iota // CPU Manager
	MemoryManager                // Memory Manager
	DRAManager                   // DRA manager
	DeviceManager                // Device Manager
)

// HasDevices reports whether the manager's file is a DeviceFile.
func (m Manager) HasDevices() bool { return m == DRAManager || m == DeviceManager }

// FileName is what the kubelet calls the file, in its root directory (R-ST-1); that of the Device
// Manager is in device-plugins there.
func (m Manager) FileName() string {
	return [...]string{
		CPUManager: "cpu_manager_state", MemoryManager: "memory_manager_state",
		DRAManager: "dra_manager_state", DeviceManager: "kubelet_internal_checkpoint",
	}[m]
}

// newest is the last version of the manager's file that is known.
func (m Manager) newest() Version {
	if m == MemoryManager {
		return 3
	}
	return 4
}

// Version is the version of a file, counted for each manager by itself: V1 to V4 for CPUs, V1 to
// V3 for memory.
type Version int

func (v Version) String() string { return fmt.Sprintf("V%d", int(v)) }

// PoolsSince is the first version that has a place for what pods have as pods; the version after
// it is the last, which has the whole content as text.
func (m Manager) PoolsSince() Version { return m.newest() - 1 }

// CPU is the content of a CPU file, of any version. Lists of CPUs are the text of the file.
type CPU struct {
	Policy string
	// Default is the node shared pool.
	Default string
	// Entries are lists of CPUs by pod UID and container.
	Entries map[string]map[string]string
	// Pools are the CPUs of pods by UID. Versions before V3 have none.
	Pools map[string]cpuset.Set
	// ByID are lists of CPUs by container id: the entries of V1.
	ByID map[string]string
}

// Memory is the content of a memory file, of any version. Amounts are bytes.
type Memory struct {
	Policy string
	// Nodes is the memory accounting by NUMA node. A nil NodeState is a null in the file.
	Nodes map[int]*NodeState
	// Entries are blocks by pod UID and container.
	Entries map[string]map[string][]Block
	// Pools are the blocks of pods by UID. V1 has none.
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
