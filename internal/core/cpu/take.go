package cpu

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Take picks n of the available CPUs as the options require: distributed over NUMA nodes (section 6
// of docs/rules/cpu.md), or packed or spread, with or without uncore caches (sections 5 and 7). If
// n ≤ 0, the result is the empty set. The error is a *NotEnoughError if fewer than n CPUs are
// available (R-CPU-40); otherwise Take succeeds. With a Behavior, the result can contain CPUs that
// are not available, and the error can be ErrEndless or ErrAccounting.
func Take(m *machine.Machine, o Options, available cpuset.Set, n int) (cpuset.Set, error) {
	if n <= 0 {
		return cpuset.Set{}, nil
	}
	if !m.AllCPUs().Contains(available) {
		available = available.Intersection(m.AllCPUs())
	}
	switch free := available.Len(); {
	case n > free:
		return cpuset.Set{}, &NotEnoughError{Requested: n, Available: free}
	case n == free && o.Behavior == Behavior{}: // All rules pick exactly n.
		return available, nil
	}
	if o.Isolated == IsolatedFirst {
		return takeIsolatedFirst(m, o, available, n)
	}
	if o.Method() == Distributed {
		if o.Behavior.SharedSubsets {
			return distributeBySubsets(m, o, available, n)
		}
		return distribute(m, o, available, n), nil
	}
	return pack(m, o, available, n), nil
}

// takeIsolatedFirst is Take with IsolatedFirst: isolated CPUs as long as there are any, then others
// (R-CPU-133). With full-pcpus-only, both parts are whole cores. A core of which only some threads
// are isolated counts as one that is not. Only a slice of less than a core, inside of a pool, is
// taken of single threads.
func takeIsolatedFirst(m *machine.Machine, o Options, available cpuset.Set, n int) (cpuset.Set, error) {
	isolated := available.Intersection(o.IsolatedCPUs(m))
	o.Isolated = IsolatedAlike
	some := min(n, isolated.Len())
	if o.FullPCPUsOnly && (some < n || n%coreSize(m) == 0) {
		isolated = WholeCores(m, isolated, cpuset.Set{})
		some = min(n, isolated.Len()) / coreSize(m) * coreSize(m)
	}
	first, err := Take(m, o, isolated, some)
	if err != nil || some == n {
		return first, err
	}
	rest, err := Take(m, o, available.Difference(first), n-some)
	return first.Union(rest), err
}

// Reserve picks the n CPUs that the Kubernetes node keeps for itself if no explicit set is
// configured. They are the result of Take on the empty machine (R-CPU-23), without its isolated
// CPUs if the options have a use for these (R-CPU-131). The error is a *ReservationError.
func Reserve(m *machine.Machine, o Options, n int) (cpuset.Set, error) {
	reserved, err := Take(m, o, m.AllCPUs().Difference(o.IsolatedCPUs(m)), n)
	if err != nil || reserved.Len() != n {
		return cpuset.Set{}, &ReservationError{Wanted: n, Got: reserved, Err: err}
	}
	return reserved, nil
}

// Allocate picks n CPUs of pool. It starts with the NUMA nodes of a merged hint or, with
// align-by-socket, with all sockets of these NUMA nodes. The rest comes from anywhere in the pool
// (R-CPU-82). If hasMask is false, Allocate is Take. A *NotEnoughError has the numbers of CPUs
// still requested and still available after the aligned part.
func Allocate(m *machine.Machine, o Options, pool cpuset.Set, nodes mask.Mask, hasMask bool, n int) (cpuset.Set, error) {
	if !hasMask {
		return Take(m, o, pool, n)
	}
	aligned := pool.Intersection(Local(m, o, nodes))
	first, err := Take(m, o, aligned, min(n, aligned.Len()))
	if err != nil {
		return cpuset.Set{}, err
	}
	if first.Len() == n {
		return first, nil
	}
	rest, err := Take(m, o, pool.Difference(first), n-first.Len())
	if err != nil {
		return cpuset.Set{}, err
	}
	return first.Union(rest), nil
}
