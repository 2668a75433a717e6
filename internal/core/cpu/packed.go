package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// pack takes need CPUs of available, in the steps of R-CPU-43. available is a subset of
// the machine's CPUs and holds at least need of them.
func pack(m *machine.Machine, o Options, available cpuset.Set, need int) cpuset.Set {
	t := newTaker(m, available, need)
	steps := [...]func(){t.takeNodes, t.takeSockets}
	if !t.numaFirst {
		slices.Reverse(steps[:])
	}
	for _, step := range steps {
		if step(); t.need == 0 {
			return t.taken.Set()
		}
	}
	if o.PreferUncore {
		if t.takeUncores(); t.need == 0 {
			return t.taken.Set()
		}
	}
	if o.DistributeAcrossCores {
		t.takeSpread()
		return t.taken.Set()
	}
	if t.takeCores(); t.need > 0 {
		t.takeThreads()
	}
	return t.taken.Set()
}

// taker is one packed take under way. Units are named by their position in the lists of
// the machine, which ascend by id.
type taker struct {
	m    *machine.Machine
	at   *machine.Index
	need int

	free, taken cpuset.Builder
	// How many CPUs of each unit are free.
	nodes, sockets, uncores, cores []int32
	numaFirst                      bool // R-CPU-42
}

func newTaker(m *machine.Machine, available cpuset.Set, need int) *taker {
	t := &taker{m: m, at: m.Index(), need: need}
	t.numaFirst = m.NumSockets() >= len(m.CPUNodes())
	t.free.AddSet(available)
	nodes, sockets, uncores := len(m.CPUNodes()), len(m.Sockets()), len(m.Uncores())
	counts := make([]int32, nodes+sockets+uncores+len(m.Cores()))
	t.nodes, counts = counts[:nodes], counts[nodes:]
	t.sockets, counts = counts[:sockets], counts[sockets:]
	t.uncores, t.cores = counts[:uncores], counts[uncores:]
	for id := range available.All() {
		t.count(id, 1)
	}
	return t
}

func (t *taker) count(id int, by int32) {
	p := t.at.Places[id]
	t.nodes[p.Node] += by
	t.sockets[p.Socket] += by
	t.uncores[p.Uncore] += by
	t.cores[p.Core] += by
}

func (t *taker) take(id int) {
	t.free.Remove(id)
	t.taken.Add(id)
	t.count(id, -1)
	t.need--
}

// takeFree takes free CPUs of set, lowest first, until the need is met.
func (t *taker) takeFree(set cpuset.Set) {
	for id := range set.All() {
		if t.need == 0 {
			return
		}
		if t.free.Has(id) {
			t.take(id)
		}
	}
}

// takeWhole takes every unit of the list that is entirely free and not more than the
// need (R-CPU-44). A positive size is what an entirely free unit must have; it is an
// average, so that on uneven machines it can be wrong for every unit.
func (t *taker) takeWhole(list []int32, units []machine.Unit, free []int32, size int) {
	for _, i := range list {
		u := &units[i]
		if int(free[i]) == u.Size && u.Size <= t.need && (size == ownSize || size == u.Size) {
			t.takeFree(u.CPUs)
		}
	}
}

// ownSize is the size for takeWhole of kinds whose units are measured by themselves.
const ownSize = 0

func (t *taker) takeNodes() {
	t.takeWhole(t.nodeOrder(), t.m.CPUNodes(), t.nodes, ownSize)
}

func (t *taker) takeSockets() {
	t.takeWhole(t.socketOrder(), t.m.Sockets(), t.sockets, max(1, t.m.CPUsPerSocket()))
}

// takeCores takes whole cores. Inside a group only cores with equal free counts are
// looked at, so that their order is that of the ids.
func (t *taker) takeCores() {
	size := coreSize(t.m)
	for _, group := range t.coreGroups() {
		t.takeWhole(group, t.m.Cores(), t.cores, size)
		if t.need == 0 {
			return
		}
	}
}

// takeThreads takes single CPUs, of the cores with the fewest free ones first
// (R-CPU-45). A core that it starts on is emptied or is the last, so counts of the
// cores still to come are those of the step's start.
func (t *taker) takeThreads() {
	for _, group := range t.coreGroups() {
		most := int32(0)
		for _, c := range group {
			most = max(most, t.cores[c])
		}
		for free := int32(1); free <= most; free++ {
			for _, c := range group {
				if t.cores[c] != free {
					continue
				}
				if t.takeFree(t.m.Cores()[c].CPUs); t.need == 0 {
					return
				}
			}
		}
	}
}

// takeSpread takes single CPUs of whole sockets in the order of their ids (R-CPU-46).
func (t *taker) takeSpread() {
	for _, s := range t.socketOrder() {
		t.takeFree(t.m.Sockets()[s].CPUs)
	}
}
