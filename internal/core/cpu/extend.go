package cpu

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Extend returns n CPUs: all CPUs of have, and the others from the set from (R-RSZ-12). If the
// options pack CPUs, it first takes the free threads of cores on which have has CPUs. With
// prefer-align-cpus-by-uncorecache, it then takes from the uncore caches of have. Take picks the
// rest. have may contain CPUs that the machine does not have at the moment. n must be at least the
// size of have. The error is a *NotEnoughError about the additional CPUs.
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
	case Spread, Distributed: // These methods do not fill cores.
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

// around returns the CPUs of all units that have a CPU in set.
func around(units []machine.Unit, set cpuset.Set) cpuset.Set {
	var b cpuset.Builder
	for i := range units {
		if units[i].CPUs.Intersects(set) {
			b.AddSet(units[i].CPUs)
		}
	}
	return b.Set()
}

// Keep returns the n CPUs of have that remain when a container or a pool shrinks: all of base, and
// more CPUs of have in the order in which Extend picks them (R-RSZ-15). CPUs that the machine does
// not have at the moment come last. base must be a subset of have with at most n CPUs.
func Keep(m *machine.Machine, o Options, have, base cpuset.Set, n int) cpuset.Set {
	online := have.Intersection(m.AllCPUs())
	kept, err := Extend(m, o, base, online, min(n, online.Union(base).Len()))
	if err != nil {
		kept = base // Extend is never asked for more CPUs than there are.
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

// WholeCores returns the CPUs of set on cores all of whose CPUs are in set or in own.
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

// Local returns the CPUs that count as aligned with the NUMA nodes: the CPUs of these NUMA nodes
// or, with align-by-socket, of all sockets that these NUMA nodes are on (R-CPU-82).
func Local(m *machine.Machine, o Options, nodes mask.Mask) cpuset.Set {
	local := m.CPUsOf(nodes)
	if !o.AlignBySocket {
		return local
	}
	return around(m.Sockets(), local)
}
