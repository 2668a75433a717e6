package cpu

// Options are the static CPU policy's options, resolved (docs/rules/cpu.md, Options).
// Package kubelet/config has rejected the pairs that exclude each other (R-CPU-11, R-CPU-12).
type Options struct {
	FullPCPUsOnly         bool
	DistributeAcrossNUMA  bool
	DistributeAcrossCores bool
	AlignBySocket         bool
	StrictReservation     bool
	PreferUncore          bool
}

// Method is how Take picks CPUs.
type Method int

const (
	// Packed: whole units, then single threads (R-CPU-41 to R-CPU-45).
	Packed Method = iota
	// PackedInUncores: packed, and within uncore caches where possible (R-CPU-60 to R-CPU-64).
	PackedInUncores
	// Spread: whole units, then one thread of each core (R-CPU-46).
	Spread
	// Distributed: evenly over NUMA nodes (R-CPU-50 to R-CPU-58).
	Distributed
)

// Method is the method that the options select.
func (o Options) Method() Method {
	switch {
	case o.DistributeAcrossNUMA:
		return Distributed
	case o.DistributeAcrossCores:
		return Spread
	case o.PreferUncore:
		return PackedInUncores
	}
	return Packed
}
