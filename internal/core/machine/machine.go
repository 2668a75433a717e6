// Package machine describes the hardware of a node: sockets, NUMA nodes, uncore
// caches, cores, threads, distances, memory and huge pages.
//
// A Machine is made once from a Description, by New, which checks it; after that it
// never changes and may be shared freely. What New accepts the rest of the core need
// not doubt: ids are in range, every thread belongs to one core of one NUMA node,
// amounts are not negative, distances, if there are any, cover every pair of NUMA
// nodes.
package machine

import (
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Description is what discovery found, before it is checked.
type Description struct {
	// CPUs and Sockets are the totals that the machine reports. They are the divisors
	// of the averages "CPUs per core" and "CPUs per socket" (R-CPU-2, R-CPU-3). Zero
	// means: count what is listed.
	CPUs, Sockets int
	Nodes         []NodeDescription
}

// NodeDescription is one NUMA node of a Description.
type NodeDescription struct {
	ID int
	// Memory is all memory of the NUMA node in bytes, huge pages included.
	Memory    int64
	HugePages []HugePages
	Cores     []CoreDescription
	// Distances to the NUMA nodes, indexed by node id, or, as the kernel lists them on
	// machines with sparse ids, by the position of the node. Empty where not reported.
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

// NoUncore means "no uncore cache reported"; the socket then takes its place
// (R-CPU-1).
const NoUncore = -1

// CPU is one thread with its place in the tree.
type CPU struct {
	ID int
	// Core is the lowest thread id of the core (R-CPU-1), so unique on the machine.
	Core int
	// Uncore is the id of the shared cache, or of the socket where none is reported.
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

// Machine is the checked, immutable hardware.
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
	distances [][]int // by node id, both; nil where not reported
	// shortDistances: see ShortDistances.
	shortDistances bool
	types          []string
	places         Index

	reportedCPUs, reportedSockets int
}

// CPUs are all threads, ascending by id. The slice is the machine's own.
func (m *Machine) CPUs() []CPU { return m.cpus }

// AllCPUs is the set of all threads.
func (m *Machine) AllCPUs() cpuset.Set { return m.all }

// CPU returns the thread with this id.
func (m *Machine) CPU(id int) (CPU, bool) {
	if id < 0 || id >= len(m.byID) || m.byID[id] < 0 {
		return CPU{}, false
	}
	return m.cpus[m.byID[id]], true
}

// Nodes are all NUMA nodes, ascending by id. The slice is the machine's own.
func (m *Machine) Nodes() []Node { return m.nodes }

// Node returns the NUMA node with this id.
func (m *Machine) Node(id int) (Node, bool) {
	i, ok := slices.BinarySearchFunc(m.nodes, id, func(n Node, id int) int { return n.ID - id })
	if !ok {
		return Node{}, false
	}
	return m.nodes[i], true
}

// NodeMask is the set of all NUMA nodes: the default mask of R-HINT-50.
func (m *Machine) NodeMask() mask.Mask { return m.nodeMask }

// CPUNodes are the NUMA nodes that own CPUs, Sockets, Uncores and Cores the units of
// their kind, each ascending by id. The slices are the machine's own.
func (m *Machine) CPUNodes() []Unit { return m.cpuNodes }

// Sockets are the sockets that own CPUs; see CPUNodes.
func (m *Machine) Sockets() []Unit { return m.sockets }

// Uncores are the uncore caches, or sockets in their place; see CPUNodes.
func (m *Machine) Uncores() []Unit { return m.uncores }

// Cores are the physical cores; see CPUNodes.
func (m *Machine) Cores() []Unit { return m.cores }

// CPUsPerCore is the average of R-CPU-3, rounded down: on hybrid machines it is no
// core's own number. 0 on a machine without cores.
func (m *Machine) CPUsPerCore() int { return average(m.reportedCPUs, len(m.cores)) }

// CPUsPerSocket is the average over the reported sockets, rounded down (R-CPU-3).
func (m *Machine) CPUsPerSocket() int { return average(m.reportedCPUs, m.reportedSockets) }

// CPUsPerUncore is the average over the uncore caches, rounded down (R-CPU-3).
func (m *Machine) CPUsPerUncore() int { return average(m.reportedCPUs, len(m.uncores)) }

// NumCPUs is the number of CPUs that the machine reports (R-CPU-2).
func (m *Machine) NumCPUs() int { return m.reportedCPUs }

// NumSockets is the number of sockets that the machine reports (R-CPU-2).
func (m *Machine) NumSockets() int { return m.reportedSockets }

func average(n, by int) int {
	if by == 0 {
		return 0
	}
	return n / by
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
		case nodes.Len() == 1: // Most pods: no copy.
			return n.CPUs
		default:
			b.AddSet(n.CPUs)
		}
	}
	return b.Set()
}

// NodesOf returns the NUMA nodes that own any of the CPUs.
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

// ShortDistances reports whether the distances were listed by position and an id is beyond the end
// of the list, as the kernel lists them where ids have gaps. Who looks them up by id fails there
//
func (m *Machine) ShortDistances() bool { return m.shortDistances }

// Distance is the ACPI SLIT distance from NUMA node a to b, by id; 0 where
// distances are unknown.
func (m *Machine) Distance(a, b int) int {
	if m.distances == nil || !m.nodeMask.Has(a) || !m.nodeMask.Has(b) {
		return 0
	}
	return m.distances[a][b]
}

// Memory is the resource name of ordinary memory.
const Memory = request.Memory

// MemoryTypes are "memory" and the huge page types of any NUMA node, such as
// "hugepages-2Mi", smallest pages first. A type's position in it is its index in
// memory tables. The slice is the machine's own.
func (m *Machine) MemoryTypes() []string { return m.types }

// MemoryType returns the index of a type in MemoryTypes, or -1.
func (m *Machine) MemoryType(name string) int { return slices.Index(m.types, name) }

// HugePageType is the resource name of a page size, as Kubernetes writes it:
// "hugepages-2Mi", "hugepages-1Gi", "hugepages-64Ki".
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
