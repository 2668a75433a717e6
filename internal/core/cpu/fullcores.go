package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// CheckFullCores applies full-pcpus-only to a request for n CPUs before any CPU is picked. n must
// be a multiple of the CPUs per core and must not exceed availablePhysical, the number of free CPUs
// on cores without a reserved CPU (R-CPU-70, R-CPU-71). The error is an *SMTAlignmentError. Without
// the option, every request is allowed.
func CheckFullCores(m *machine.Machine, o Options, availablePhysical, n int) error {
	if !o.FullPCPUsOnly {
		return nil
	}
	perCore := coreSize(m)
	scarce := n > availablePhysical
	if n%perCore == 0 && !scarce {
		return nil
	}
	return &SMTAlignmentError{
		Requested:         n,
		PerCore:           perCore,
		AvailablePhysical: availablePhysical,
		Scarce:            n%perCore == 0 && scarce,
	}
}

// PhysicalOf returns all threads of all cores that have a CPU of set (R-CPU-24). It ignores CPUs
// that the machine does not have.
func PhysicalOf(m *machine.Machine, set cpuset.Set) cpuset.Set {
	var b cpuset.Builder
	for _, core := range m.Cores() {
		if core.CPUs.Intersects(set) {
			b.AddSet(core.CPUs)
		}
	}
	return b.Set()
}

// SplitsCores reports whether set contains only a part of some core although Take does not split
// cores for a request that CheckFullCores allows. This is the case only if every core has the
// average number of CPUs. On other machines Take may split cores, and SplitsCores returns
// false.
func SplitsCores(m *machine.Machine, set cpuset.Set) bool {
	other := func(core machine.Unit) bool { return core.Size != coreSize(m) }
	return !slices.ContainsFunc(m.Cores(), other) && !PhysicalOf(m, set).Equal(set)
}

// coreSize returns the average number of CPUs per core, but at least 1, because a machine may
// report fewer CPUs than it lists cores.
func coreSize(m *machine.Machine) int { return max(1, m.CPUsPerCore()) }
