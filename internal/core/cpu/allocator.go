package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// pack takes need CPUs of available, in the steps of R-CPU-43. available is a subset of
// the machine's CPUs and has at least need of them.
func pack(m *machine.Machine, o Options, available cpuset.Set, need int) cpuset.Set {
	a := newAllocator(m, available, need)
	steps := [...]func(){a.takeNodes, a.takeSockets}
	if !a.numaFirst {
		slices.Reverse(steps[:])
	}
	for _, step := range steps {
		if step(); a.need == 0 {
			return a.taken.Set()
		}
	}
	if o.PreferUncore {
		if a.takeUncores(); a.need == 0 {
			return a.taken.Set()
		}
	}
	if o.DistributeAcrossCores {
		a.takeSpread()
		return a.taken.Set()
	}
	if a.takeCores(); a.need > 0 {
		a.takeThreads()
	}
	return a.taken.Set()
}

// allocator takes CPUs for one request. A unit (NUMA node, socket, uncore cache, core) is an
// index of the machine's lists, which ascend by id.
type allocator struct {
	m    *machine.Machine
	at   *machine.Index
	need int

	free, taken cpuset.Builder
	// The free CPUs of each level, as a count by unit.
	nodes, sockets, uncores, cores []int32
	numaFirst                      bool // R-CPU-42
}

func newAllocator(m *machine.Machine, available cpuset.Set, need int) *allocator {
	a := &allocator{m: m, at: m.Index(), need: need}
	a.numaFirst = m.NumSockets() >= len(m.CPUNodes())
	a.free.AddSet(available)
	nodes, sockets, uncores := len(m.CPUNodes()), len(m.Sockets()), len(m.Uncores())
	counts := make([]int32, nodes+sockets+uncores+len(m.Cores()))
	a.nodes, counts = counts[:nodes], counts[nodes:]
	a.sockets, counts = counts[:sockets], counts[sockets:]
	a.uncores, a.cores = counts[:uncores], counts[uncores:]
	for id := range available.All() {
		a.count(id, 1)
	}
	return a
}

func (a *allocator) count(id int, by int32) {
	p := a.at.Places[id]
	a.nodes[p.Node] += by
	a.sockets[p.Socket] += by
	a.uncores[p.Uncore] += by
	a.cores[p.Core] += by
}

func (a *allocator) take(id int) {
	a.free.Remove(id)
	a.taken.Add(id)
	a.count(id, -1)
	a.need--
}

// takeFree takes free CPUs of set, lowest first, until the need is met.
func (a *allocator) takeFree(set cpuset.Set) {
	for id := range set.All() {
		if a.need == 0 {
			return
		}
		if a.free.Has(id) {
			a.take(id)
		}
	}
}

// takeWhole takes every unit of the list that is entirely free and not larger than the need
// (R-CPU-44). Where size is not ownSize, a unit must have that size. It is an average, which on
// uneven machines can differ from every unit.
func (a *allocator) takeWhole(list []int32, units []machine.Unit, free []int32, size int) {
	for _, i := range list {
		u := &units[i]
		if int(free[i]) == u.Size && u.Size <= a.need && (size == ownSize || size == u.Size) {
			a.takeFree(u.CPUs)
		}
	}
}

// ownSize tells takeWhole to accept units of any size. It is 0 because no unit and no average has
// that size.
const ownSize = 0

func (a *allocator) takeNodes() {
	a.takeWhole(a.nodeOrder(), a.m.CPUNodes(), a.nodes, ownSize)
}

func (a *allocator) takeSockets() {
	a.takeWhole(a.socketOrder(), a.m.Sockets(), a.sockets, max(1, a.m.CPUsPerSocket()))
}

// takeCores takes whole cores, by ascending id in each group: cores that are entirely free have
// equal counts, so R-CPU-41 orders them by id.
func (a *allocator) takeCores() {
	size := coreSize(a.m)
	for _, group := range a.coreGroups() {
		a.takeWhole(group, a.m.Cores(), a.cores, size)
		if a.need == 0 {
			return
		}
	}
}

// takeThreads takes single CPUs, of the cores with the fewest free ones first (R-CPU-45). It
// takes all of a core before the next one, so the counts of the cores to come do not change.
func (a *allocator) takeThreads() {
	for _, group := range a.coreGroups() {
		most := int32(0)
		for _, c := range group {
			most = max(most, a.cores[c])
		}
		for free := int32(1); free <= most; free++ {
			for _, c := range group {
				if a.cores[c] != free {
					continue
				}
				if a.takeFree(a.m.Cores()[c].CPUs); a.need == 0 {
					return
				}
			}
		}
	}
}

// takeSpread takes the CPUs of one socket after the other, by ascending id (R-CPU-46).
func (a *allocator) takeSpread() {
	for _, s := range a.socketOrder() {
		a.takeFree(a.m.Sockets()[s].CPUs)
	}
}
