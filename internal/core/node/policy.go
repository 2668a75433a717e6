package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
)

//go:generate go tool stringer -type=TopologyPolicy,Scope,Isolation -linecomment -output=enum_string.go

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
// resolved for one machine by kubeletcfg. It holds no text to parse and no gate to ask.
type Policy struct {
	Topology TopologyPolicy
	Scope    Scope
	// PreferClosest is prefer-closest-numa-nodes (R-HINT-53).
	PreferClosest bool

	// StaticCPU is cpuManagerPolicy static; otherwise nobody gets exclusive CPUs.
	StaticCPU bool
	CPU       cpu.Options
	// ReservedCPUs are never given to anyone exclusively (R-CPU-22, R-CPU-23), also while they are
	// offline and the machine does not have them. Empty
	// unless StaticCPU.
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
	// Quota says how far quotas are lifted, and what takes their place. No grant depends on it.
	Quota QuotaPolicy
}

// Strict tells whether the Topology Manager policy rejects what is not aligned.
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
	o, found := &p.CPU, []Conflict(nil)
	for c, is := range [...]bool{
		FullCoresAcrossCores:  o.FullPCPUsOnly && o.DistributeAcrossCores,
		AcrossNUMAAcrossCores: o.DistributeAcrossNUMA && o.DistributeAcrossCores,
		UncoreAcrossCores:     o.PreferUncore && o.DistributeAcrossCores,
		UncoreAcrossNUMA:      o.PreferUncore && o.DistributeAcrossNUMA,
		SocketsSingleNUMANode: o.AlignBySocket && p.Topology == TopologySingleNUMANode,
		SocketsAboveNodes:     o.AlignBySocket && m.NumSockets() > len(m.CPUNodes()),
		OptionsWithoutStatic:  !p.StaticCPU && *o != cpu.Options{},
	} {
		if is {
			found = append(found, Conflict(c))
		}
	}
	return found
}
