package machine

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Place is where a CPU is, as positions in Cores, Uncores, CPUNodes and Sockets.
type Place struct{ Core, Uncore, Node, Socket int32 }

// Part is what one unit has of another: the CPUs of both.
type Part struct {
	Unit int32 // position in the list of its kind
	CPUs cpuset.Set
}

// Index is how the units of a machine are nested. It names units by their position in Cores,
// Uncores, CPUNodes and Sockets. These lists ascend by id, and so do positions. The slices are the
// machine's own.
//
// A NUMA node may have parts of several sockets, and a socket parts of several NUMA nodes; a core
// is in one of each.
type Index struct {
	// Places is indexed by CPU id, up to the highest; entries of ids that are no CPU
	// are -1 four times.
	Places []Place
	// The cores of each socket, NUMA node and uncore cache.
	SocketCores, NodeCores, UncoreCores [][]int32
	// What each NUMA node has of sockets and uncore caches, and each socket of NUMA nodes.
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

// coresIn relies on a core having all its threads in one unit.
func (x *Index) coresIn(units, cores []Unit, of func(Place) int32) [][]int32 {
	lists := make([][]int32, len(units))
	for c, core := range cores {
		u := of(x.Places[core.ID])
		lists[u] = append(lists[u], int32(c))
	}
	return lists
}

// partsOf goes through the CPUs once: a description may name as many units as CPUs, and
// comparing all units with each other would take minutes.
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
