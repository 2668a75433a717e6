package machine

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Place is the location of a CPU, as positions in Cores, Uncores, CPUNodes and Sockets.
type Place struct{ Core, Uncore, Node, Socket int32 }

// Part is the overlap of a unit with another unit: the CPUs that are in both.
type Part struct {
	Unit int32 // position of the other unit in the list of its kind
	CPUs cpuset.Set
}

// Index describes how the units of a machine are nested. It identifies units by their position in
// Cores, Uncores, CPUNodes and Sockets. These lists ascend by id, and so do positions. The caller
// must not change the slices.
//
// A NUMA node may have parts of several sockets, and a socket may have parts of several NUMA nodes.
// A core is in exactly one NUMA node and one socket.
type Index struct {
	// Places is indexed by CPU id, up to the highest id. If there is no CPU with an id, all four
	// fields are -1.
	Places []Place
	// SocketCores, NodeCores and UncoreCores list the cores of each socket, NUMA node and uncore
	// cache.
	SocketCores, NodeCores, UncoreCores [][]int32
	// NodeSockets and NodeUncores list the parts of sockets and uncore caches in each NUMA node.
	// SocketNodes lists the parts of NUMA nodes in each socket.
	NodeSockets, NodeUncores, SocketNodes [][]Part
}

// Index returns the tables that searches over the units need.
func (m *Machine) Index() *Index { return &m.places }

func (m *Machine) indexPlaces() {
	x := Index{Places: make([]Place, len(m.byID))}
	for i := range x.Places {
		x.Places[i] = Place{-1, -1, -1, -1}
	}
	fill := func(units []Unit, set func(*Place, int32)) {
		for i, u := range units {
			for id := range u.CPUs.All() {
				set(&x.Places[id], int32(i))
			}
		}
	}
	fill(m.cores, func(p *Place, i int32) { p.Core = i })
	fill(m.uncores, func(p *Place, i int32) { p.Uncore = i })
	fill(m.cpuNodes, func(p *Place, i int32) { p.Node = i })
	fill(m.sockets, func(p *Place, i int32) { p.Socket = i })

	x.SocketCores = x.coresIn(m.sockets, m.cores, socketOf)
	x.NodeCores = x.coresIn(m.cpuNodes, m.cores, nodeOf)
	x.UncoreCores = x.coresIn(m.uncores, m.cores, uncoreOf)
	x.NodeSockets = x.partsOf(m.cpuNodes, socketOf)
	x.NodeUncores = x.partsOf(m.cpuNodes, uncoreOf)
	x.SocketNodes = x.partsOf(m.sockets, nodeOf)
	m.places = x
}

func nodeOf(p Place) int32   { return p.Node }
func socketOf(p Place) int32 { return p.Socket }
func uncoreOf(p Place) int32 { return p.Uncore }

// coresIn returns the cores of each unit. It relies on all threads of a core being in one unit.
func (x *Index) coresIn(units, cores []Unit, of func(Place) int32) [][]int32 {
	lists := make([][]int32, len(units))
	for c, core := range cores {
		u := of(x.Places[core.ID])
		lists[u] = append(lists[u], int32(c))
	}
	return lists
}

// partsOf returns the parts of inner units in each unit. It goes through the CPUs once, because a
// description may have as many units as CPUs, and comparing all units with each other would take
// minutes.
func (x *Index) partsOf(units []Unit, inner func(Place) int32) [][]Part {
	lists := make([][]Part, len(units))
	for i, u := range units {
		parts := map[int32]*cpuset.Builder{}
		for id := range u.CPUs.All() {
			in := inner(x.Places[id])
			if parts[in] == nil {
				parts[in] = &cpuset.Builder{}
			}
			parts[in].Add(id)
		}
		for _, in := range slices.Sorted(maps.Keys(parts)) {
			lists[i] = append(lists[i], Part{Unit: in, CPUs: parts[in].Set()})
		}
	}
	return lists
}
