package cpu

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

//go:generate stringer -type=Isolated -linecomment -output=enum_string.go

// Options are the resolved options of the static CPU policy (docs/rules/cpu.md, Options). Package
// kubelet/config has rejected pairs that exclude each other (R-CPU-11, R-CPU-12).
type Options struct {
	FullPCPUsOnly         bool
	DistributeAcrossNUMA  bool
	DistributeAcrossCores bool
	AlignBySocket         bool
	StrictReservation     bool
	PreferUncore          bool
	// Isolated is which part the isolated CPUs of the machine have. No kubelet has this option.
	Isolated Isolated
	// DividesCaches is the option cache-allocation: containers with exclusive CPUs can have ways of
	// the L3 caches and memory bandwidth for themselves (docs/rules/cache.md). No kubelet has it.
	DividesCaches bool
	// Behavior reproduces kubelets that take other CPUs than Paddock. It is not an option, because
	// users do not set it.
	Behavior Behavior
}

// Isolated is the value of the option isolated-cpus: which part the CPUs of the boot parameter
// isolcpus have (docs/rules/cpu.md, Isolated CPUs).
type Isolated int

const (
	// IsolatedAlike means that isolated CPUs are as all others. It is the value without the option.
	IsolatedAlike Isolated = iota //
	// IsolatedFirst means that exclusive CPUs are isolated ones while there are any (R-CPU-133).
	IsolatedFirst // prefer
	// IsolatedOnly means that all exclusive CPUs are isolated ones (R-CPU-132).
	IsolatedOnly // only
)

// IsolatedCPUs returns the CPUs that the option keeps out of shared pools: the isolated CPUs of the
// machine, or none without the option.
func (o Options) IsolatedCPUs(m *machine.Machine) cpuset.Set {
	if o.Isolated == IsolatedAlike {
		return cpuset.Set{}
	}
	return m.Isolation().Isolated
}

// Behavior lists the cases in which a kubelet takes other CPUs than Paddock. The zero value is
// Paddock's behavior.
type Behavior struct {
	// AverageUnits makes a core or socket count as free if as many of its CPUs are free as an
	// average one has. All of its CPUs are then taken, including those that are reserved or
	// assigned. Kubernetes 1.36 and 1.37 do this.
	AverageUnits bool
	// SharedSubsets makes distribute-cpus-across-numa visit subsets of NUMA nodes in lists that
	// share memory. A later subset therefore overwrites the last NUMA node of the chosen one
	// . Kubernetes 1.36 and 1.37 do this.
	SharedSubsets bool
	// EndlessRemainder makes distribute-cpus-across-numa compare the sum of the free CPUs with the
	// remainder and then take whole cores. If the NUMA nodes have only parts of cores left, the
	// search for whole cores never ends. It takes effect only together with SharedSubsets.
	// Kubernetes 1.33 to 1.37 do this.
	EndlessRemainder bool
	// WholeCoresOfUncore makes prefer-align-cpus-by-uncorecache take a part of a cache in whole
	// cores only. A need that ends with half a core is then not taken from one cache.
	// Kubernetes 1.33 does this.
	WholeCoresOfUncore bool
}

// Effective returns the options without the points of their Behavior that cannot change a result on
// the machine: those of methods that are not used, and AverageUnits where all cores, and all
// sockets, have the average size.
func (o Options) Effective(m *machine.Machine) Options {
	b := &o.Behavior
	b.SharedSubsets = b.SharedSubsets && o.DistributeAcrossNUMA
	b.EndlessRemainder = b.EndlessRemainder && o.DistributeAcrossNUMA
	b.WholeCoresOfUncore = b.WholeCoresOfUncore && o.PreferUncore
	b.AverageUnits = b.AverageUnits && !m.Even()
	return o
}

// Method is how Take picks CPUs.
type Method int

const (
	// Packed takes whole units, then single threads (R-CPU-41 to R-CPU-45).
	Packed Method = iota
	// PackedInUncores packs and stays within uncore caches if possible (R-CPU-60 to R-CPU-64).
	PackedInUncores
	// Spread takes whole units, then one thread of each core (R-CPU-46).
	Spread
	// Distributed takes CPUs evenly from several NUMA nodes (R-CPU-50 to R-CPU-58).
	Distributed
)

// Method returns the method that the options select.
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
