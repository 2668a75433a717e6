package cpu

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// pack takes need CPUs from available, in the steps of R-CPU-43. available must be a subset of the
// machine's CPUs and have at least need CPUs.
//
// pack allocates only its result, except on very large machines and with PreferUncore. This matters
// because an admission calls pack once for the pool of a pod and once for each slice.
func pack(m *machine.Machine, o Options, available cpuset.Set, need int) cpuset.Set {
	var s scratch
	a := newAllocator(m, available, need, &s)
	a.wholeCores = o.Behavior.WholeCoresOfUncore
	if o.Behavior.AverageUnits {
		a.beyond = new(cpuset.Builder)
	}
	for _, nodes := range [...]bool{a.numaFirst, !a.numaFirst} {
		if nodes {
			a.takeWhole(a.nodeOrder(), m.CPUNodes(), ownSize)
		} else {
			a.takeWhole(a.socketOrder(), m.Sockets(), max(1, m.CPUsPerSocket()))
		}
		if a.need == 0 {
			return a.taken()
		}
	}
	if o.PreferUncore {
		if a.takeUncores(); a.need == 0 {
			return a.taken()
		}
	}
	if o.DistributeAcrossCores {
		// One socket after the other, by ascending id (R-CPU-46).
		for _, s := range a.socketOrder() {
			a.takeFree(m.Sockets()[s].CPUs)
		}
		return a.taken()
	}
	// Take whole cores, by ascending id in each group. R-CPU-41 orders them by id because all cores
	// that are entirely free have the same number of free CPUs.
	order, cores := a.coreGroups()
	for _, group := range order {
		if a.takeWhole(cores[group], m.Cores(), coreSize(m)); a.need == 0 {
			return a.taken()
		}
	}
	a.takeThreads()
	return a.taken()
}

// allocator takes CPUs for one request. A unit (NUMA node, socket, uncore cache or core) is an
// index into the machine's lists, which ascend by id.
//
// No method stores a value that it read from a field in another field. This lets the compiler keep
// the scratch memory on the stack.
type allocator struct {
	m         *machine.Machine
	at        *machine.Index
	available cpuset.Set
	need      int

	free cpuset.Builder // available without the CPUs taken so far
	// The number of free CPUs of each unit, for every level by which units are ordered. Cores have
	// no counts, because a request looks at only a few of them.
	nodes, sockets, uncores []int32
	numaFirst               bool // R-CPU-42
	wholeCores              bool // Behavior.WholeCoresOfUncore
	// beyond is the set of CPUs that Behavior.AverageUnits takes together with a unit. It is nil
	// without that behavior.
	beyond *cpuset.Builder
	// outer and inner are buffers for an order of sockets or NUMA nodes. outer is for the order
	// that determines inner's. The next order overwrites them.
	outer, inner []int32
}

// scratch is the memory of an allocator. On machines that exceed it, each list is allocated
// separately.
type scratch struct {
	words  [16]uint64    // 1,024 CPUs
	counts [3 * 64]int32 // 64 NUMA nodes and 64 sockets, and the orders of both
}

func newAllocator(m *machine.Machine, available cpuset.Set, need int, s *scratch) allocator {
	a := allocator{m: m, at: m.Index(), available: available, need: need}
	a.numaFirst = m.NumSockets() >= len(m.CPUNodes())
	a.free = cpuset.BuilderOf(available, s.words[:])
	nodes, sockets := len(m.CPUNodes()), len(m.Sockets())
	longest := max(nodes, sockets)
	counts := s.counts[:]
	if size := nodes + sockets + 2*longest; size > len(counts) {
		counts = make([]int32, size)
	}
	a.nodes, counts = counts[:nodes], counts[nodes:]
	a.sockets, counts = counts[:sockets], counts[sockets:]
	a.outer, a.inner = counts[:longest], counts[longest:2*longest]
	for i := range a.nodes {
		a.nodes[i] = int32(available.IntersectionLen(m.CPUNodes()[i].CPUs))
	}
	for i := range a.sockets {
		a.sockets[i] = int32(available.IntersectionLen(m.Sockets()[i].CPUs))
	}
	return a
}

// taken returns the CPUs taken so far.
func (a *allocator) taken() cpuset.Set {
	set := a.free.Removed(a.available)
	if a.beyond != nil {
		set = set.Union(a.beyond.Set())
	}
	return set
}

// takeFree takes free CPUs from set, lowest id first, until the need is met.
func (a *allocator) takeFree(set cpuset.Set) {
	for id := range set.All() {
		if a.need == 0 {
			return
		}
		if a.free.Has(id) {
			a.free.Remove(id)
			p := &a.at.Places[id]
			a.nodes[p.Node]--
			a.sockets[p.Socket]--
			a.need--
		}
	}
}

// takeWhole takes every unit in list that is entirely free and not larger than the need (R-CPU-44).
// Unless size is ownSize, it takes only units of exactly that size. size is then an average of the
// machine; on uneven machines no unit may have it.
func (a *allocator) takeWhole(list []int32, units []machine.Unit, size int) {
	if a.beyond != nil {
		a.takeAverage(list, units, size)
		return
	}
	for _, i := range list {
		u := &units[i]
		if u.Size <= a.need && (size == ownSize || size == u.Size) && a.free.Contains(u.CPUs) {
			a.takeFree(u.CPUs)
		}
	}
}

// takeAverage is takeWhole with Behavior.AverageUnits. A unit counts as free if exactly size of its
// CPUs are free. All of its CPUs are then taken and counted, whether they are free or not.
func (a *allocator) takeAverage(list []int32, units []machine.Unit, size int) {
	var free []int32
	for _, i := range list {
		want := size
		if size == ownSize {
			want = units[i].Size
		}
		if a.free.IntersectionLen(units[i].CPUs) == want {
			free = append(free, i)
		}
	}
	for _, i := range free {
		if u := &units[i]; u.Size <= a.need {
			need := a.need - u.Size
			a.takeFree(u.CPUs)
			a.beyond.AddSet(u.CPUs)
			a.need = need
		}
	}
}

// ownSize makes takeWhole accept units of any size. It is 0 because no unit and no average has that
// size.
const ownSize = 0

// takeThreads takes single CPUs, starting with the cores that have the fewest free CPUs (R-CPU-45).
// It takes all free CPUs of a core before it moves to the next one, so the counts of the remaining
// cores do not change.
func (a *allocator) takeThreads() {
	var buffer [256]int32
	counts := buffer[:0] // free CPUs by core of the group
	order, cores := a.coreGroups()
	for _, group := range order {
		counts = counts[:0]
		most := int32(0)
		for _, c := range cores[group] {
			n := int32(a.free.IntersectionLen(a.m.Cores()[c].CPUs))
			counts, most = append(counts, n), max(most, n)
		}
		for free := int32(1); free <= most; free++ {
			for i, c := range cores[group] {
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
