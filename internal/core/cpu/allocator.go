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
	steps := [...]func(){
		func() { a.takeWhole(a.nodeOrder(), m.CPUNodes(), ownSize) },
		func() { a.takeWhole(a.socketOrder(), m.Sockets(), max(1, m.CPUsPerSocket())) },
	}
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
		// One socket after the other, by ascending id (R-CPU-46).
		for _, s := range a.socketOrder() {
			a.takeFree(m.Sockets()[s].CPUs)
		}
		return a.taken.Set()
	}
	// Whole cores, by ascending id in each group: cores that are entirely free have equal counts,
	// so R-CPU-41 orders them by id.
	for _, group := range a.coreGroups() {
		if a.takeWhole(group, m.Cores(), coreSize(m)); a.need == 0 {
			return a.taken.Set()
		}
	}
	a.takeThreads()
	return a.taken.Set()
}

// allocator takes CPUs for one request. A unit (NUMA node, socket, uncore cache, core) is an
// index of the machine's lists, which ascend by id.
type allocator struct {
	m    *machine.Machine
	at   *machine.Index
	need int

	free, taken cpuset.Builder
	// The free CPUs of each level that units are ordered by, as a count by unit. Cores have no
	// counts: a request looks at few of them.
	nodes, sockets, uncores []int32
	numaFirst               bool // R-CPU-42
}

func newAllocator(m *machine.Machine, available cpuset.Set, need int) *allocator {
	a := &allocator{m: m, at: m.Index(), need: need}
	a.numaFirst = m.NumSockets() >= len(m.CPUNodes())
	a.free.AddSet(available)
	counts := make([]int32, len(m.CPUNodes())+len(m.Sockets()))
	a.nodes, a.sockets = counts[:len(m.CPUNodes())], counts[len(m.CPUNodes()):]
	for i := range a.nodes {
		a.nodes[i] = int32(available.IntersectionLen(m.CPUNodes()[i].CPUs))
	}
	for i := range a.sockets {
		a.sockets[i] = int32(available.IntersectionLen(m.Sockets()[i].CPUs))
	}
	return a
}

// takeFree takes free CPUs of set, lowest first, until the need is met.
func (a *allocator) takeFree(set cpuset.Set) {
	for id := range set.All() {
		if a.need == 0 {
			return
		}
		if a.free.Has(id) {
			a.free.Remove(id)
			a.taken.Add(id)
			p := &a.at.Places[id]
			a.nodes[p.Node]--
			a.sockets[p.Socket]--
			a.need--
		}
	}
}

// takeWhole takes every unit of the list that is entirely free and not larger than the need
// (R-CPU-44). Where size is not ownSize, a unit must have that size. It is an average, which on
// uneven machines can differ from every unit.
func (a *allocator) takeWhole(list []int32, units []machine.Unit, size int) {
	for _, i := range list {
		u := &units[i]
		if u.Size <= a.need && (size == ownSize || size == u.Size) && a.free.Contains(u.CPUs) {
			a.takeFree(u.CPUs)
		}
	}
}

// with ownSize takeWhole accepts units of any size. It is 0 because no unit and no average has
// that size.
const ownSize = 0

// takeThreads takes single CPUs, of the cores with the fewest free ones first (R-CPU-45). It
// takes all of a core before the next one, so the counts of the cores to come do not change.
func (a *allocator) takeThreads() {
	var counts []int // free CPUs by core of the group
	for _, group := range a.coreGroups() {
		counts = counts[:0]
		most := 0
		for _, c := range group {
			n := a.free.IntersectionLen(a.m.Cores()[c].CPUs)
			counts, most = append(counts, n), max(most, n)
		}
		for free := 1; free <= most; free++ {
			for i, c := range group {
				if counts[i] != free {
					continue
				}
				if a.takeFree(a.m.Cores()[c].CPUs); a.need == 0 {
					return
				}
			}
		}
	}
}
