package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
)

//go:generate stringer -type=MoveStep,TopologyPolicy,Scope,Isolation,Distance,Misplaced,Fault -linecomment -output=enum_string.go

// TopologyPolicy is the Topology Manager policy.
type TopologyPolicy int

// The policies (R-HINT-60…63).
const (
	TopologyNone           TopologyPolicy = iota // none
	TopologyBestEffort                           // best-effort
	TopologyRestricted                           // restricted
	TopologySingleNUMANode                       // single-numa-node
)

// hintPolicy returns the policy for the merge of hints. TopologyNone never merges.
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

// Scope is the unit that the Topology Manager aligns: each container, or the pod as a whole.
type Scope int

// The scopes (R-HINT-64, R-HINT-65).
const (
	ContainerScope Scope = iota // container
	PodScope                    // pod
)

// Policy is the set of rules by which a node decides: a KubeletConfiguration with its feature
// gates, resolved for one machine by kubeletcfg. It contains no text to parse and no gate to read.
type Policy struct {
	Topology TopologyPolicy
	Scope    Scope
	// PreferClosest is the option prefer-closest-numa-nodes (R-HINT-53).
	PreferClosest bool

	// StaticCPU is set if cpuManagerPolicy is static. If not set, no container gets exclusive CPUs.
	StaticCPU bool
	CPU       cpu.Options
	// ReservedCPUs are never exclusive to a container (R-CPU-22, R-CPU-23), even while they are
	// offline and the machine does not have them. Empty unless StaticCPU is set.
	ReservedCPUs cpuset.Set

	// StaticMemory is set if memoryManagerPolicy is Static. If not set, memory is not managed.
	StaticMemory bool
	// ReservedMemory is the system's part of each NUMA node in bytes, by NUMA node id and type
	// (R-MEM-3, R-MEM-4). Nil unless StaticMemory is set.
	ReservedMemory map[int]map[string]int64

	// PodLevelResources and PodLevelManagers are the feature gates PodLevelResources and
	// PodLevelResourceManagers. The second is never on without the first.
	PodLevelResources, PodLevelManagers bool
	// LiftQuota is the feature gate DisableCPUQuotaWithExclusiveCPUs: containers with their own
	// CPUs run without CFS quota (R-ST-80).
	LiftQuota bool
	// Quota determines which CFS quotas are removed, and what replaces them. No grant depends on
	// it.
	Quota QuotaPolicy
	// MaxContainers is the maximum number of containers of a pod that is admitted. Zero means no
	// limit, as in the kubelet (R-DEM-102). No grant depends on it: a pod that is admitted keeps
	// what it has.
	MaxContainers int
	// Moves limits the moves of running pods that the node makes for a pod that would not fit
	// otherwise.
	Moves MovePolicy
	// Behavior describes where a kubelet decides differently. The zero value means Paddock's own
	// rules. As sets it.
	Behavior Behavior
}

// QuotaPolicy determines which CFS quotas apply to pods with exclusive CPUs or with a pool. The
// zero value means the reference's rules (R-ST-80 to R-ST-83).
type QuotaPolicy struct {
	// Isolated removes the quota from every cgroup above exclusive containers, so that no sibling
	// and no debug container can throttle them. It bounds the other containers one by one: by the
	// cpuset of the pod's pool, or by their own quota. It has no effect without Policy.LiftQuota.
	Isolated bool
	// EphemeralMilli is the limit of an ephemeral container of a pod without quota, in thousandths
	// of a CPU, if Isolated is set. Zero means no limit.
	EphemeralMilli int64
}

// MovePolicy limits how a node moves running pods (docs/rules/moves.md). The zero value allows no
// moves. No plan depends on it.
type MovePolicy struct {
	// Pods is the maximum number of pods that are moved for one pod, 0 to 2. Zero means that the
	// policy is not dynamic.
	Pods int
	// All allows moves of CPUs within their NUMA nodes also for pods without consent. A pod can opt
	// out.
	All bool
	// Bytes is the maximum amount of memory, in bytes, that is moved between NUMA nodes for one
	// pod.
	Bytes int64
	// AnyKernel allows moves of memory also on kernels before 6.18, on which a move can stall the
	// creation of containers.
	AnyKernel bool
}

// MaxMoves is the largest MovePolicy.Pods: the planner looks for sets of at most two.
const MaxMoves = 2

// Strict reports whether the Topology Manager policy rejects pods that are not aligned.
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
	// SocketsSingleNUMANode means that align-by-socket would widen what single-numa-node never
	// allows to be wider.
	SocketsSingleNUMANode
	// SocketsAboveNodes means align-by-socket on a machine with more sockets than NUMA nodes.
	SocketsAboveNodes
	// OptionsWithoutStatic means that options are set, and the CPU policy none takes no options.
	OptionsWithoutStatic
)

// Conflicts returns all conflicts of the policy on a machine.
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
