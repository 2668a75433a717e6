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
	// Behavior is where a kubelet takes other CPUs. It is no option: users do not set it.
	Behavior Behavior
}

// Behavior is where a kubelet takes other CPUs than Paddock. The zero value is Paddock.
type Behavior struct {
	// AverageUnits: a core or socket counts as free when as many of its CPUs are free as an average
	// one has. All its CPUs are then taken, also those that are reserved or assigned.
	// Kubernetes 1.36 and 1.37.
	AverageUnits bool
	// SharedSubsets: distribute-cpus-across-numa visits subsets of NUMA nodes that share memory, so
	// that a later one overwrites the last NUMA node of the one that was chosen. Kubernetes
	// 1.36 and 1.37.
	SharedSubsets bool
	// EndlessRemainder: distribute-cpus-across-numa compares the sum of the free CPUs with the
	// remainder, and then takes whole cores. Where NUMA nodes have only half cores left, it looks
	// for them without end. It acts on the search of SharedSubsets. Kubernetes 1.33 to 1.37.
	EndlessRemainder bool
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
