package machine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Caches describes how the kernel can divide the L3 caches and the memory bandwidth of a machine
// among classes of service, as /sys/fs/resctrl/info lists it. The zero value means that it cannot.
// The caches are those of L3s.
type Caches struct {
	// Classes is the number of classes that can exist at a time (CLOSIDs), including the default
	// class, which has everything that is in no other one.
	Classes int
	// Ways is the number of ways of each L3 cache that classes can have, at most MaxWays. Zero
	// means that the caches cannot be divided.
	Ways int
	// LeastWays is the smallest number of ways that a class can have (min_cbm_bits).
	LeastWays int
	// HardwareWays has a bit for each way that hardware uses beside the CPUs, such as for I/O
	// (shareable_bits).
	HardwareWays uint32
	// Sparse is set if the ways of a class need not be contiguous (sparse_masks).
	Sparse bool
	// CodeAndData is set if a class has ways for code and ways for data (CDP). Paddock gives a
	// class the same ways for both.
	CodeAndData bool
	// LeastBandwidth and BandwidthStep are the smallest limit of the memory bandwidth of a class,
	// and the step between limits, in percent (min_bandwidth, bandwidth_gran). Zero means that
	// there are no limits in percent.
	LeastBandwidth, BandwidthStep int
	// AbsoluteBandwidth is set if the processor limits memory bandwidth in GB/s. What there is in
	// total is then not known, so that it cannot be divided.
	AbsoluteBandwidth bool
}

// MaxWays is the largest number of ways of a cache: the kernel states ways as 32 bits.
const MaxWays = 32

// IsEmpty reports whether the kernel can divide nothing.
func (c Caches) IsEmpty() bool { return c == Caches{} }

// DividesBandwidth reports whether classes can have a part of the memory bandwidth.
func (c Caches) DividesBandwidth() bool { return c.LeastBandwidth > 0 && c.BandwidthStep > 0 }

// check returns an error if a number is out of range.
func (c Caches) check() error {
	switch {
	case c.Classes < 0 || c.Classes > 1<<16:
		return invalid("it reports %d classes of service for its caches", c.Classes)
	case c.Ways < 0 || c.Ways > MaxWays:
		return invalid("it reports %d ways of each L3 cache, and the kernel has at most %d", c.Ways, MaxWays)
	case c.Ways > 0 && (c.LeastWays < 1 || c.LeastWays > c.Ways):
		return invalid("it reports that a class has at least %d of %d ways of an L3 cache", c.LeastWays, c.Ways)
	case bits.Len32(c.HardwareWays) > c.Ways:
		return invalid("it reports that hardware uses the ways %x of an L3 cache with %d ways", c.HardwareWays, c.Ways)
	case c.LeastBandwidth < 0 || c.LeastBandwidth > 100 || c.BandwidthStep < 0 || c.BandwidthStep > 100:
		return invalid("it reports limits of the memory bandwidth from %d%% on in steps of %d%%", c.LeastBandwidth, c.BandwidthStep)
	}
	return nil
}

// setL3 sets the L3 caches, with the CPUs that the machine has.
func (m *Machine) setL3(described []Unit) error {
	if m.l3 = m.uncores; described == nil {
		return nil
	}
	m.l3, m.described = nil, slices.Clone(described)
	slices.SortFunc(m.described, func(a, b Unit) int { return cmp.Compare(a.ID, b.ID) })
	left := m.all
	for i, u := range m.described {
		if u.ID < 0 || i > 0 && m.described[i-1].ID == u.ID {
			return invalid("it lists L3 cache %d twice, or with a negative id", u.ID)
		}
		cpus := u.CPUs.Intersection(m.all)
		if twice := cpus.Difference(left); !twice.IsEmpty() {
			return invalid("CPUs %s use two L3 caches", twice)
		}
		left = left.Difference(cpus)
		if !cpus.IsEmpty() {
			m.l3 = append(m.l3, Unit{ID: u.ID, CPUs: cpus, Size: cpus.Len()})
		}
	}
	if !left.IsEmpty() {
		return invalid("CPUs %s use no L3 cache", left)
	}
	return nil
}

// withL3 returns the description of the L3 caches after CPUs came online.
func (m *Machine) withL3(now *Machine) []Unit {
	if m.described == nil {
		return nil
	}
	all := slices.Clone(m.described)
	var known cpuset.Builder
	for _, u := range all {
		known.AddSet(u.CPUs)
	}
	for _, u := range now.l3 {
		more := u.CPUs.Difference(known.Set())
		i := slices.IndexFunc(all, func(a Unit) bool { return a.ID == u.ID })
		switch {
		case more.IsEmpty():
		case i >= 0:
			all[i].CPUs = all[i].CPUs.Union(more)
		default:
			all = append(all, Unit{ID: u.ID, CPUs: more})
		}
	}
	return all
}

// L3s returns the L3 caches that have CPUs, ascending by id. The ids are those of the kernel, if
// the machine can divide its caches. The caller must not change the slice.
func (m *Machine) L3s() []Unit { return m.l3 }

// HasOwnL3s reports whether the L3 caches are not the units of Uncores: an L3 cache of a whole NUMA
// node is no uncore cache (R-CPU-1).
func (m *Machine) HasOwnL3s() bool { return m.described != nil }

// Caches returns how the L3 caches and the memory bandwidth can be divided.
func (m *Machine) Caches() Caches { return m.caches }
