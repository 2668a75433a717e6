package quirk

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// taker takes CPUs as the kubelet does, and notes the faults on its way.
type taker struct {
	m      *machine.Machine
	o      cpu.Options
	faults []fault
	// endless: the kubelet never ends.
	endless bool
}

// allocate takes n CPUs of pool, first on the NUMA nodes of the merged hint (R-CPU-82).
func (t *taker) allocate(pool cpuset.Set, choice hint.Choice, n int) (cpuset.Set, error) {
	if pool.Len() < n {
		return cpuset.Set{}, &cpu.NotEnoughError{Requested: n, Available: pool.Len()}
	}
	if !choice.HasMask {
		return t.take(pool, n)
	}
	aligned := pool.Intersection(t.reach(choice.Mask))
	first, err := t.take(aligned, min(n, aligned.Len()))
	if err != nil || t.endless {
		return cpuset.Set{}, err
	}
	rest, err := t.take(pool.Difference(first), n-first.Len())
	return first.Union(rest), err
}

// reach are the CPUs that count as aligned: those of the NUMA nodes, with align-by-socket of their
// sockets.
func (t *taker) reach(nodes mask.Mask) cpuset.Set {
	local := t.m.CPUsOf(nodes)
	if !t.o.AlignBySocket {
		return local
	}
	reach := local
	for _, s := range t.m.Sockets() {
		if s.CPUs.Intersects(local) {
			reach = reach.Union(s.CPUs)
		}
	}
	return reach
}

// take takes n of the CPUs.
func (t *taker) take(available cpuset.Set, n int) (cpuset.Set, error) {
	if n <= 0 {
		return cpuset.Set{}, nil
	}
	if free := available.Len(); n > free {
		return cpuset.Set{}, &cpu.NotEnoughError{Requested: n, Available: free}
	}
	if t.o.DistributeAcrossNUMA {
		if set, done, err := t.distribute(available, n); done {
			return set, err
		}
	}
	packed := t.o
	packed.DistributeAcrossNUMA = false
	packed.PreferUncore = t.o.PreferUncore && !t.o.DistributeAcrossNUMA
	return t.pack(packed, available, n)
}

// pack takes CPUs packed. Where all cores and sockets are of one size, the kubelet takes what
// Paddock takes.
func (t *taker) pack(o cpu.Options, available cpuset.Set, n int) (cpuset.Set, error) {
	ours, err := cpu.Take(t.m, o, available, n)
	if err != nil || !uneven(t.m) {
		return ours, err
	}
	p := packer{m: t.m, o: o, free: available, need: n}
	p.pack()
	if !p.taken.Equal(ours) {
		t.faults = append(t.faults, fault{id: AverageUnits})
	}
	return p.taken, nil
}

// uneven reports whether a core or a socket has more CPUs than the average.
func uneven(m *machine.Machine) bool {
	for _, c := range m.Cores() {
		if c.Size != m.CPUsPerCore() {
			return true
		}
	}
	for _, s := range m.Sockets() {
		if s.Size != m.CPUsPerSocket() {
			return true
		}
	}
	return false
}
