package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
)

//go:generate go tool stringer -type=MoveStep,TopologyPolicy,Scope,Isolation,Distance,Misplaced,Cause,Fault -linecomment -output=enum_string.go

// TopologyPolicy is the Topology Manager policy.
type TopologyPolicy int

// The policies (R-HINT-60…63).
const (
	TopologyNone           TopologyPolicy = iota // none
	TopologyBestEffort                           // best-effort
	TopologyRestricted                           // restricted
	TopologySingleNUMANode                       // single-numa-node
)

// hintPolicy is the policy for the merge; "none" never asks for one.
func (p TopologyPolicy) hintPolicy() hint.Policy {
	switch p {
	case TopologyRestricted:
		return hint.Restricted
	case TopologySingleNUMANode:
		return hint.SingleNUMANode
	case TopologyNone, TopologyBestEffort:
	}
	return hint.BestEffort
}

// Scope is what the Topology Manager aligns: each container, or the pod as a whole.
type Scope int

// The scopes (R-HINT-64, R-HINT-65).
const (
	ContainerScope Scope = iota // container
	PodScope                    // pod
)

// Policy is how a node decides: a KubeletConfiguration with its feature gates,
// resolved for one machine by kubeletcfg. It has no text to parse and no gate to read.
type Policy struct {
	Topology TopologyPolicy
	Scope    Scope
	// PreferClosest is prefer-closest-numa-nodes (R-HINT-53).
	PreferClosest bool

	// StaticCPU is cpuManagerPolicy static; otherwise no container gets exclusive CPUs.
	StaticCPU bool
	CPU       cpu.Options
	// ReservedCPUs are never exclusive to a container (R-CPU-22, R-CPU-23), also while they are
	// offline and the machine does not have them. Empty unless StaticCPU.
	ReservedCPUs cpuset.Set

	// StaticMemory is memoryManagerPolicy Static; otherwise memory is not managed.
	StaticMemory bool
	// ReservedMemory is the system's part of each NUMA node in bytes, by node id and type
	// (R-MEM-3, R-MEM-4). Nil unless StaticMemory.
	ReservedMemory map[int]map[string]int64

	// PodLevelResources and PodLevelManagers are the feature gates PodLevelResources and
	// PodLevelResourceManagers; the second is never on without the first.
	PodLevelResources, PodLevelManagers bool
	// LiftQuota is the gate DisableCPUQuotaWithExclusiveCPUs: containers with CPUs of their
	// own run without CFS quota (R-ST-80).
	LiftQuota bool
	// Quota determines which CFS quotas are removed, and what replaces them. No grant depends on
	// it.
	Quota QuotaPolicy
	// MaxContainers is how many containers a pod may have to be admitted; 0: there is no bound, as
	// in the kubelet (R-DEM-102). No grant depends on it: a pod that is admitted keeps what it has.
	MaxContainers int
	// Moves are the moves of running pods that the node makes for a pod that would not fit
	// otherwise.
	Moves MovePolicy
	// Behavior is where a kubelet decides otherwise; the zero value is Paddock's own rules. As sets
	// it.
	Behavior Behavior
}

// MovePolicy is how far a node moves running pods (docs/rules/moves.md). The zero value moves none.
// No plan depends on it.
type MovePolicy struct {
	// Pods is how many pods are moved for one pod at most, 0 to 2; 0: the policy is not dynamic.
	Pods int
	// All moves CPUs within their NUMA nodes also of pods without consent. A pod can opt out.
	All bool
	// Bytes is how much memory is moved between NUMA nodes for one pod at most.
	Bytes int64
	// AnyKernel moves memory also on kernels before 6.18, on which a move can stall the creation of
	// containers.
	AnyKernel bool
}

// MaxMoves is the largest MovePolicy.Pods: the planner looks for sets of at most two.
const MaxMoves = 2

// Strict reports whether the Topology Manager policy rejects what is not aligned.
func (p *Policy) Strict() bool {
	return p.Topology == TopologyRestricted || p.Topology == TopologySingleNUMANode
}

// Conflict is a combination of settings with which no kubelet starts.
type Conflict int

// The conflicts, in the order in which a kubelet finds them (R-CPU-11, R-CPU-12).
const (
	FullCoresAcrossCores Conflict = iota
	AcrossNUMAAcrossCores
	UncoreAcrossCores
	UncoreAcrossNUMA
	// SocketsSingleNUMANode: align-by-socket widens what single-numa-node never allows.
	SocketsSingleNUMANode
	// SocketsAboveNodes: align-by-socket on a machine with more sockets than NUMA nodes.
	SocketsAboveNodes
	// OptionsWithoutStatic: the CPU policy none takes no options.
	OptionsWithoutStatic
)

// Conflicts are all conflicts of the policy on a machine.
func (p *Policy) Conflicts(m *machine.Machine) []Conflict {
	o, found := p.CPU, []Conflict(nil)
	o.Behavior = cpu.Behavior{}
	for c, is := range [...]bool{
		FullCoresAcrossCores:  o.FullPCPUsOnly && o.DistributeAcrossCores,
		AcrossNUMAAcrossCores: o.DistributeAcrossNUMA && o.DistributeAcrossCores,
		UncoreAcrossCores:     o.PreferUncore && o.DistributeAcrossCores,
		UncoreAcrossNUMA:      o.PreferUncore && o.DistributeAcrossNUMA,
		SocketsSingleNUMANode: o.AlignBySocket && p.Topology == TopologySingleNUMANode,
		SocketsAboveNodes:     o.AlignBySocket && m.NumSockets() > len(m.CPUNodes()),
		OptionsWithoutStatic:  !p.StaticCPU && o != cpu.Options{},
	} {
		if is {
			found = append(found, Conflict(c))
		}
	}
	return found
}
