package noise

import (
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Unknown is the count of a CPU that the kernel does not list, because the CPU is offline.
const Unknown = math.MaxUint64

// Row is one line of /proc/interrupts or /proc/softirqs.
type Row struct {
	// ID is "36", "LOC" or "NET_RX".
	ID string
	// Name has the devices of an interrupt, or what the kernel calls a row that has no device.
	Name string
	// Counts are in the order of Snapshot.CPUs.
	Counts []uint64
}

// Counters are the kernel's counts for the cgroup of one container.
type Counters struct {
	// Quota is false if the cgroup has no counts of its CFS quota, or cannot be read.
	Quota              bool
	Periods, Throttled uint64
	ThrottledTime      time.Duration
	// Migrated is the number of pages that automatic NUMA balancing moved. It is meaningful only
	// if HasMigrated is set.
	Migrated    uint64
	HasMigrated bool
}

// Snapshot has the kernel's counts at one moment.
type Snapshot struct {
	// At is the time since a moment that all snapshots have in common, by a clock that is never
	// set.
	At time.Duration
	// CPUs are the ids of the watched CPUs, ascending.
	CPUs                 []int
	Interrupts, Softirqs []Row
	// Containers are in the order of the containers that are compared.
	Containers []Counters
	// Migrated is the number of pages that NUMA balancing has moved on the whole node.
	Migrated    uint64
	HasMigrated bool
}

// Container is a container with CPUs that are only its own. Without a name, these are CPUs that a
// user chose.
type Container struct {
	Pod, UID, Name string
	CPUs           cpuset.Set
	// Cgroup is the path of its cgroup below the root of cgroups, or "" if it is not known.
	Cgroup string
}

// owns reports whether a task is one of the container's own. Without a cgroup, tasks of programs
// that can only run on its CPUs are.
func (c *Container) owns(t *Seen) bool {
	if c.Cgroup == "" {
		return !t.Kernel && !t.Allowed.IsEmpty() && c.CPUs.Contains(t.Allowed)
	}
	// In a namespace of cgroups, the path of a task does not begin at the root. The name of the
	// container's cgroup has the ID of the container.
	return slices.Contains(strings.Split(t.Cgroup, "/"), path.Base(c.Cgroup))
}

// TaskID identifies a task as long as the kernel runs.
type TaskID struct {
	ID    int
	Start uint64 // in ticks since the start of the kernel
}

// Seen is a task as one look found it.
type Seen struct {
	TaskID
	// Process is the ID of its process.
	Process int
	Name    string
	Kernel  bool
	// CPU is the one on which it ran last.
	CPU int
	// Time is the CPU time that it has used. Runs is how often it began to run, if HasRuns is set.
	Time    time.Duration
	Runs    uint64
	HasRuns bool
	// Involuntary is how often it lost its CPU to another task, if HasSwitches is set.
	Involuntary uint64
	HasSwitches bool
	// Allowed are the CPUs on which it can run, and Cgroup is its cgroup. They are empty if they
	// were not read, because the task is not on a watched CPU.
	Allowed cpuset.Set
	Cgroup  string
}
