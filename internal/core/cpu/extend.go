package cpu

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Extend returns n CPUs: all of have, and the others of from (R-RSZ-12). Where the options pack
// CPUs, the free threads of cores that have is on come first, with prefer-align-cpus-by-uncorecache
// then its uncore caches; Take picks the rest. have may have CPUs that the machine does not have
// now. n is at least the size of have. The error is a *NotEnoughError about what is wanted in
// addition.
func Extend(m *machine.Machine, o Options, have, from cpuset.Set, n int) (cpuset.Set, error) {
	need := n - have.Len()
	from = from.Difference(have).Intersection(m.AllCPUs())
	if free := from.Len(); free < need {
		return cpuset.Set{}, &NotEnoughError{Requested: need, Available: free}
	}
	var near []cpuset.Set
	switch o.Method() {
	case PackedInUncores:
		near = []cpuset.Set{around(m.Cores(), have), around(m.Uncores(), have)}
	case Packed:
		near = []cpuset.Set{around(m.Cores(), have)}
	case Spread, Distributed: // They do not fill cores.
	}
	for _, tier := range append(near, m.AllCPUs()) {
		local := from.Intersection(tier)
		more, err := Take(m, o, local, min(n-have.Len(), local.Len()))
		if err != nil {
			return cpuset.Set{}, err
		}
		have, from = have.Union(more), from.Difference(more)
	}
	return have, nil
}

// around are the CPUs of all units that have a CPU of set.
func around(units []machine.Unit, set cpuset.Set) cpuset.Set {
	var b cpuset.Builder
	for i := range units {
		if units[i].CPUs.Intersects(set) {
			b.AddSet(units[i].CPUs)
		}
	}
	return b.Set()
}

// Keep returns the n CPUs of have that stay when a container or a pool shrinks: base, and more of
// have as Extend picks them (R-RSZ-15). CPUs that the machine does not have now are the last. base
// is a subset of have and has n CPUs at most.
func Keep(m *machine.Machine, o Options, have, base cpuset.Set, n int) cpuset.Set {
	online := have.Intersection(m.AllCPUs())
	kept, err := Extend(m, o, base, online, min(n, online.Union(base).Len()))
	if err != nil {
		kept = base // It never asks for more than there is.
	}
	var b cpuset.Builder
	b.AddSet(kept)
	left := n - kept.Len()
	for id := range have.Difference(kept).All() {
		if left > 0 {
			b.Add(id)
			left--
		}
	}
	return b.Set()
}

// WholeCores are the CPUs of set on cores that are entirely in set or in own.
func WholeCores(m *machine.Machine, set, own cpuset.Set) cpuset.Set {
	all := set.Union(own)
	var b cpuset.Builder
	for _, core := range m.Cores() {
		if all.Contains(core.CPUs) {
			b.AddSet(core.CPUs.Intersection(set))
		}
	}
	return b.Set()
}

// Local are the CPUs that count as aligned with NUMA nodes: those of the NUMA nodes or, with
// align-by-socket, of all sockets of these NUMA nodes (R-CPU-82).
func Local(m *machine.Machine, o Options, nodes mask.Mask) cpuset.Set {
	local := m.CPUsOf(nodes)
	if !o.AlignBySocket {
		return local
	}
	return around(m.Sockets(), local)
}
