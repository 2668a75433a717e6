// Package machine describes the hardware of a Kubernetes node: sockets, NUMA nodes, uncore caches,
// cores, threads, distances, memory and huge pages.
//
// New checks a Description and returns a Machine, which never changes and may be shared freely. The
// rest of the core can rely on what New has checked: ids are in range, every thread belongs to one
// core of one NUMA node, amounts are not negative, and distances, if there are any, cover every
// pair of NUMA nodes.
package machine

import (
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Description is the result of discovery before it is checked.
type Description struct {
	// CPUs and Sockets are the totals that the machine reports. The averages "CPUs per core" and
	// "CPUs per socket" are computed from them (R-CPU-2, R-CPU-3). Zero means the number of listed
	// CPUs or sockets.
	CPUs, Sockets int
	Nodes         []NodeDescription
	Isolation     Isolation
	// Caches must be empty if the L3 cache of a CPU is not known. L3 has the L3 caches with their
	// CPUs. Nil means that they are the units of Uncores, which have the same ids then.
	Caches Caches
	L3     []Unit
}

// NodeDescription is one NUMA node of a Description.
type NodeDescription struct {
	ID int
	// Memory is the total memory of the NUMA node in bytes, huge pages included.
	Memory    int64
	HugePages []HugePages
	Cores     []CoreDescription
	// Distances to the NUMA nodes, indexed by NUMA node id or by the position of the NUMA node, as
	// the kernel lists them on machines with sparse ids. Empty if not reported.
	Distances []int
}

// HugePages is the pool of one page size on one NUMA node.
type HugePages struct {
	SizeKiB int64
	Count   int64
}

// CoreDescription is one physical core.
type CoreDescription struct {
	Socket  int
	Threads []int
	// Uncore is the id of the last-level cache that the core shares, or NoUncore.
	Uncore int
}

// NoUncore means that no uncore cache is reported. The socket then takes its place (R-CPU-1).
const NoUncore = -1

// CPU is one thread and its position in the topology.
type CPU struct {
	ID int
	// Core is the lowest thread id of the core (R-CPU-1), which is unique on the machine.
	Core int
	// Uncore is the id of the shared cache, or of the socket if no cache is reported.
	Uncore int
	Node   int
	Socket int
}

// Unit is a core, an uncore cache, a NUMA node or a socket, seen as a set of CPUs.
type Unit struct {
	ID   int
	CPUs cpuset.Set
	Size int // number of CPUs
}

// Node is one NUMA node, with or without CPUs, with or without memory.
type Node struct {
	ID        int
	CPUs      cpuset.Set
	Memory    int64 // bytes, huge pages included
	HugePages []HugePages
}

// Machine is the hardware of a Kubernetes node, checked and immutable.
type Machine struct {
	cpus      []CPU // ascending by id
	byID      []int32
	all       cpuset.Set
	nodes     []Node // ascending by id
	nodeMask  mask.Mask
	cpuNodes  []Unit // NUMA nodes that own CPUs, ascending by id
	sockets   []Unit
	uncores   []Unit
	cores     []Unit
	distances [][]int // by both NUMA node ids; nil if not reported
	// shortDistances is the value of ShortDistances.
	shortDistances bool
	types          []string
	places         Index

	reportedCPUs, reportedSockets int
	// even is the value of Even.
	even      bool
	isolation Isolation
	caches    Caches
	// l3 has the value of L3s, and described what the description has.
	l3, described []Unit
}

// CPUs returns all threads, ascending by id. The caller must not change the slice.
func (m *Machine) CPUs() []CPU { return m.cpus }

// AllCPUs returns the set of all threads.
func (m *Machine) AllCPUs() cpuset.Set { return m.all }

// CPU returns the thread with this id.
func (m *Machine) CPU(id int) (CPU, bool) {
	if id < 0 || id >= len(m.byID) || m.byID[id] < 0 {
		return CPU{}, false
	}
	return m.cpus[m.byID[id]], true
}

// Nodes returns all NUMA nodes, ascending by id. The caller must not change the slice.
func (m *Machine) Nodes() []Node { return m.nodes }

// Node returns the NUMA node with this id.
func (m *Machine) Node(id int) (Node, bool) {
	i, ok := slices.BinarySearchFunc(m.nodes, id, func(n Node, id int) int { return n.ID - id })
	if !ok {
		return Node{}, false
	}
	return m.nodes[i], true
}

// NodeMask returns the set of all NUMA nodes, which is the default mask of R-HINT-50.
func (m *Machine) NodeMask() mask.Mask { return m.nodeMask }

// CPUNodes returns the NUMA nodes that have CPUs, ascending by id. The caller must not change the
// slice.
func (m *Machine) CPUNodes() []Unit { return m.cpuNodes }

// Sockets returns the sockets that have CPUs, ascending by id. The caller must not change the
// slice.
func (m *Machine) Sockets() []Unit { return m.sockets }

// Uncores returns the uncore caches, or the sockets in their place, ascending by id. The caller
// must not change the slice.
func (m *Machine) Uncores() []Unit { return m.uncores }

// Cores returns the physical cores, ascending by id. The caller must not change the slice.
func (m *Machine) Cores() []Unit { return m.cores }

// CPUsPerCore returns the average of R-CPU-3, rounded down. On hybrid machines no core may have
// this number of CPUs. It returns 0 on a machine without cores.
func (m *Machine) CPUsPerCore() int { return average(m.reportedCPUs, len(m.cores)) }

// CPUsPerSocket returns the average over the reported sockets, rounded down (R-CPU-3).
func (m *Machine) CPUsPerSocket() int { return average(m.reportedCPUs, m.reportedSockets) }

// CPUsPerUncore returns the average over the uncore caches, rounded down (R-CPU-3).
func (m *Machine) CPUsPerUncore() int { return average(m.reportedCPUs, len(m.uncores)) }

// Even reports whether every core has CPUsPerCore CPUs and every socket CPUsPerSocket.
func (m *Machine) Even() bool { return m.even }

// NumCPUs returns the number of CPUs that the machine reports (R-CPU-2).
func (m *Machine) NumCPUs() int { return m.reportedCPUs }

// NumSockets returns the number of sockets that the machine reports (R-CPU-2).
func (m *Machine) NumSockets() int { return m.reportedSockets }

func average(n, by int) int {
	if by == 0 {
		return 0
	}
	return n / by
}

func allHave(units []Unit, size int) bool {
	return !slices.ContainsFunc(units, func(u Unit) bool { return u.Size != size })
}

// CPUsOf returns the CPUs of the NUMA nodes in nodes.
func (m *Machine) CPUsOf(nodes mask.Mask) cpuset.Set {
	if nodes.Contains(m.nodeMask) {
		return m.all
	}
	var b cpuset.Builder
	for i := range m.cpuNodes {
		n := &m.cpuNodes[i]
		switch {
		case !nodes.Has(n.ID):
		case nodes.Len() == 1: // Avoids a copy in the most common case.
			return n.CPUs
		default:
			b.AddSet(n.CPUs)
		}
	}
	return b.Set()
}

// NodesOf returns the NUMA nodes that have any of the CPUs.
func (m *Machine) NodesOf(cpus cpuset.Set) mask.Mask {
	var nodes mask.Mask
	for _, n := range m.cpuNodes {
		if n.CPUs.Intersects(cpus) {
			nodes = nodes.With(n.ID)
		}
	}
	return nodes
}

// HasDistances reports whether the distance of every pair of NUMA nodes is known.
func (m *Machine) HasDistances() bool { return m.distances != nil }

// ShortDistances reports whether the distances are listed by position and some id is beyond the end
// of the list, as the kernel lists them if ids have gaps. Looking distances up by id then fails
//
func (m *Machine) ShortDistances() bool { return m.shortDistances }

// Distance returns the ACPI SLIT distance from NUMA node a to NUMA node b, by id. It returns 0 if
// distances are unknown.
func (m *Machine) Distance(a, b int) int {
	if m.distances == nil || !m.nodeMask.Has(a) || !m.nodeMask.Has(b) {
		return 0
	}
	return m.distances[a][b]
}

// Memory is the resource name of ordinary memory.
const Memory = request.Memory

// MemoryTypes returns "memory" and the huge page types of all NUMA nodes, such as "hugepages-2Mi",
// smallest pages first. The position of a type is its index in memory tables. The caller must not
// change the slice.
func (m *Machine) MemoryTypes() []string { return m.types }

// MemoryType returns the index of a type in MemoryTypes, or -1.
func (m *Machine) MemoryType(name string) int { return slices.Index(m.types, name) }

// HugePageType returns the resource name of a page size, as Kubernetes writes it: "hugepages-2Mi",
// "hugepages-1Gi", "hugepages-64Ki".
func HugePageType(sizeKiB int64) string {
	for _, unit := range []struct {
		kib  int64
		name string
	}{{1 << 30, "Ti"}, {1 << 20, "Gi"}, {1 << 10, "Mi"}} {
		if sizeKiB >= unit.kib && sizeKiB%unit.kib == 0 {
			return request.HugePagesPrefix + strconv.FormatInt(sizeKiB/unit.kib, 10) + unit.name
		}
	}
	return request.HugePagesPrefix + strconv.FormatInt(sizeKiB, 10) + "Ki"
}
