package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// CheckFullCores applies full-pcpus-only to a request for n CPUs before any are picked: n must be
// whole cores, and no more than availablePhysical, the free CPUs outside the cores of reserved
// CPUs (R-CPU-70, R-CPU-71). The error is a *SMTAlignmentError. Without the option everything is
// allowed.
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

// SplitsCores reports whether a set has a part of a core where Take would not split one for a
// request that CheckFullCores allows: if all cores have as many CPUs as the average. On other
// machines Take may.
func SplitsCores(m *machine.Machine, set cpuset.Set) bool {
	other := func(core machine.Unit) bool { return core.Size != coreSize(m) }
	return !slices.ContainsFunc(m.Cores(), other) && !PhysicalOf(m, set).Equal(set)
}

// coreSize is the average number of CPUs per core, at least 1: a machine may report
// fewer CPUs than it lists cores.
func coreSize(m *machine.Machine) int { return max(1, m.CPUsPerCore()) }
