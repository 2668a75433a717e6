package node

import "github.com/paddock-project/paddock/internal/core/request"

// Reason is the short word that a rejected pod's status shows. Users know most of them from the
// kubelet.
type Reason string

// The reasons (docs/rules/api-metrics.md, section 7).
const (
	TopologyAffinityError         Reason = "TopologyAffinityError"
	SMTAlignmentError             Reason = "SMTAlignmentError"
	EmptyPodSharedPoolError       Reason = "EmptyPodSharedPoolError"
	UnexpectedAdmissionError      Reason = "UnexpectedAdmissionError"
	PodLevelResourcesNotSupported Reason = "PodLevelResourcesNotSupported"
	// TooManyContainers is Paddock's own: the pod has more containers than the agent's
	// configuration admits (R-DEM-102).
	TooManyContainers Reason = "TooManyContainers"
	// TopologySearchLimit is Paddock's own: the search for NUMA nodes used up its steps
	// without finding any answer (docs/rules/hints-search.md, Budget).
	TopologySearchLimit Reason = "TopologySearchLimit"
	// Infeasible and Deferred are those of a resize, as in the condition PodResizePending: it is
	// not possible on this node, or not before other pods are gone (R-RSZ-20).
	Infeasible Reason = "Infeasible"
	Deferred   Reason = "Deferred"
)

// Cause is why a pod was rejected. What depends on a rejection depends on its cause; the reason and
// the rule of a rejection follow from it and are for people.
type Cause int

const (
	// NoCause: the pod was not rejected.
	NoCause Cause = iota
	// ResourcesOff: the pod has pod-level resources, and the gate PodLevelResources is off.
	ResourcesOff
	// ContainersAboveBound: the pod has more containers than Policy.MaxContainers.
	ContainersAboveBound
	// NotAligned: the Topology Manager policy admits none of the sets of NUMA nodes.
	NotAligned
	// GivenApart: the given devices are near more NUMA nodes than the Topology Manager policy
	// admits.
	GivenApart
	// GivenElsewhere: what the pod asks for does not fit on the NUMA nodes of its given devices.
	GivenElsewhere
	// SearchLimit: the search for NUMA nodes used up its steps without finding any answer.
	SearchLimit
	// PoolEmpty: exclusive containers leave nothing of the pod's pool to a container that shares.
	PoolEmpty
	// PoolNotAligned is the same, found by the Topology Manager.
	PoolNotAligned
	// PoolOverdrawn: exclusive containers want more than the pod's pool.
	PoolOverdrawn
	// TooFewCPUs are free.
	TooFewCPUs
	// PartialCores: the request is no whole number of physical cores, and the policy wants that.
	PartialCores
	// TooFewCores are free, where the policy wants whole physical cores.
	TooFewCores
	// NoMemoryType: the machine has no huge pages of that size.
	NoMemoryType
	// NoMemoryRoom: no set of NUMA nodes has enough memory.
	NoMemoryRoom
	// MemoryGroups: the NUMA nodes that have enough serve memory in other groups.
	MemoryGroups
	// MemoryNotThere: the aligned NUMA nodes have too little memory, and cannot be extended.
	MemoryNotThere
	// MemoryNotTogether: no set of NUMA nodes has enough memory for the containers together.
	MemoryNotTogether
	// MemoryOutside: the memory would be on more than the aligned NUMA nodes.
	MemoryOutside
	// TooFewDevices are free.
	TooFewDevices
	// StateFull: the state would pass the bound of the state file.
	StateFull
	// NotHere: the pod to resize has no grant.
	NotHere
	// NotResizable: the change is of something that Kubernetes resizes in no pod.
	NotResizable
	// OtherPolicy: the pod was admitted under a policy that gave it other assignments.
	OtherPolicy
	// Crossing: a container or pool would begin or cease to have something of its own.
	Crossing
	// BelowBaseline: the pod would have fewer CPUs than it was admitted with.
	BelowBaseline
	// SlicesApart: the pool is large enough, but not without moving slices of containers.
	SlicesApart
	// BeingMoved: the pod is being moved, and is resized afterwards.
	BeingMoved
	// KubeletPanics: the admission takes the kubelet down. Only a Behavior has this cause and the
	// next ones.
	KubeletPanics
	// KubeletHangs: the admission never ends, and the kubelet answers nothing else.
	KubeletHangs
	// MemoryUnread: the amount of memory has a fraction of a byte.
	MemoryUnread
)

// Down reports whether the admission takes the kubelet down.
func (c Cause) Down() bool { return c == KubeletPanics || c == KubeletHangs }

// names are what people read of the cause: the reason, and the rule that rejected.
func (c Cause) names(resource request.Resource, t TopologyPolicy) (Reason, string) {
	alignment := "R-HINT-62"
	if t == TopologySingleNUMANode {
		alignment = "R-HINT-63"
	}
	pool := "R-DEM-62"
	if resource == request.CPU {
		pool = "R-DEM-61"
	}
	names := [...]struct {
		reason Reason
		rule   string
	}{
		NoCause:              {},
		ResourcesOff:         {PodLevelResourcesNotSupported, "R-DEM-2"},
		ContainersAboveBound: {TooManyContainers, "R-DEM-102"},
		NotAligned:           {TopologyAffinityError, alignment},
		GivenApart:           {TopologyAffinityError, alignment},
		GivenElsewhere:       {TopologyAffinityError, alignment},
		SearchLimit:          {TopologySearchLimit, alignment},
		PoolEmpty:            {EmptyPodSharedPoolError, pool},
		PoolNotAligned:       {TopologyAffinityError, "R-DEM-64"},
		PoolOverdrawn:        {UnexpectedAdmissionError, "R-DEM-94"},
		TooFewCPUs:           {UnexpectedAdmissionError, "R-CPU-40"},
		PartialCores:         {SMTAlignmentError, "R-CPU-70"},
		TooFewCores:          {SMTAlignmentError, "R-CPU-71"},
		NoMemoryType:         {TopologyAffinityError, "R-HINT-35"},
		NoMemoryRoom:         {TopologyAffinityError, "R-MEM-32"},
		MemoryGroups:         {TopologyAffinityError, "R-MEM-35"},
		MemoryNotThere:       {TopologyAffinityError, "R-MEM-33"},
		MemoryNotTogether:    {TopologyAffinityError, alignment},
		MemoryOutside:        {TopologyAffinityError, alignment},
		TooFewDevices:        {UnexpectedAdmissionError, "R-HINT-42"},
		StateFull:            {UnexpectedAdmissionError, "R-ST-2"},
		NotHere:              {Infeasible, "R-RSZ-1"},
		NotResizable:         {Infeasible, "R-RSZ-2"},
		OtherPolicy:          {Infeasible, "R-RSZ-3"},
		Crossing:             {Infeasible, "R-RSZ-4"},
		BelowBaseline:        {Infeasible, "R-RSZ-5"},
		SlicesApart:          {Infeasible, "R-RSZ-18"},
		BeingMoved:           {Deferred, "R-MOV-10"},
		KubeletPanics:        {UnexpectedAdmissionError, "R-HINT-35"},
		KubeletHangs:         {UnexpectedAdmissionError, "R-CPU-58"},
		MemoryUnread:         {UnexpectedAdmissionError, "R-DEM-32"},
	}
	return names[c].reason, names[c].rule
}
