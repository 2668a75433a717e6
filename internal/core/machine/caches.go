package machine

import "math/bits"

// Caches describes how the kernel can divide the L3 caches and the memory bandwidth of a machine
// among classes of service, as /sys/fs/resctrl/info lists it. The zero value means that it cannot.
// The caches are those of Uncores, which have the ids that the kernel uses for them.
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

// Caches returns how the L3 caches and the memory bandwidth can be divided.
func (m *Machine) Caches() Caches { return m.caches }
