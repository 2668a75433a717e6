package rejection

import "github.com/paddock-project/paddock/internal/core/request"

// Reason is the short word in the status of a rejected pod. Users know most reasons from the
// kubelet.
type Reason string

// The reasons (docs/rules/api-metrics.md, section 7).
const (
	TopologyAffinityError         Reason = "TopologyAffinityError"
	SMTAlignmentError             Reason = "SMTAlignmentError"
	EmptyPodSharedPoolError       Reason = "EmptyPodSharedPoolError"
	UnexpectedAdmissionError      Reason = "UnexpectedAdmissionError"
	PodLevelResourcesNotSupported Reason = "PodLevelResourcesNotSupported"
	// TooManyContainers is specific to Paddock: the pod has more containers than the agent's
	// configuration admits (R-DEM-102).
	TooManyContainers Reason = "TooManyContainers"
	// TopologySearchLimit is specific to Paddock: the search for NUMA nodes used up its steps
	// without finding any answer (docs/rules/hints-search.md, Budget).
	TopologySearchLimit Reason = "TopologySearchLimit"
	// Infeasible and Deferred are the reasons of a resize, as in the condition PodResizePending.
	// The resize is not possible on this node, or not before other pods are gone (R-RSZ-20).
	Infeasible Reason = "Infeasible"
	Deferred   Reason = "Deferred"
)

//go:generate stringer -type=Cause -linecomment -output=enum_string.go

// Cause is why a pod was rejected. Code that depends on a rejection depends on its cause. The
// reason and the rule of a rejection follow from the cause and are for people.
type Cause int

const (
	// NoCause means that the pod was not rejected.
	NoCause Cause = iota
	// ResourcesOff means that the pod has pod-level resources, and the feature gate
	// PodLevelResources is off.
	ResourcesOff
	// ContainersAboveBound means that the pod has more containers than Policy.MaxContainers.
	ContainersAboveBound
	// NotAligned means that the Topology Manager policy admits none of the sets of NUMA nodes.
	NotAligned
	// GivenApart means that the given devices are near more NUMA nodes than the Topology Manager
	// policy admits.
	GivenApart
	// GivenElsewhere means that the pod's demand does not fit on the NUMA nodes of its given
	// devices.
	GivenElsewhere
	// SearchLimit means that the search for NUMA nodes used up its steps without finding any
	// answer.
	SearchLimit
	// PoolEmpty means that exclusive containers leave nothing of the pod's pool to a container that
	// shares.
	PoolEmpty
	// PoolNotAligned is PoolEmpty, found by the Topology Manager.
	PoolNotAligned
	// PoolOverdrawn means that exclusive containers request more than the pod's pool.
	PoolOverdrawn
	// TooFewCPUs means that too few CPUs are free.
	TooFewCPUs
	// PartialCores means that the request is not a whole number of physical cores, and the policy
	// requires that.
	PartialCores
	// TooFewCores means that too few physical cores are free, and the policy requires whole cores.
	TooFewCores
	// NoMemoryType means that the machine has no huge pages of that size.
	NoMemoryType
	// NoMemoryRoom means that no set of NUMA nodes has enough memory.
	NoMemoryRoom
	// MemoryGroups means that the NUMA nodes that have enough memory serve it in other groups.
	MemoryGroups
	// MemoryNotThere means that the aligned NUMA nodes have too little memory, and cannot be
	// extended.
	MemoryNotThere
	// MemoryNotTogether means that no set of NUMA nodes has enough memory for the containers
	// together.
	MemoryNotTogether
	// MemoryOutside means that the memory would be on more than the aligned NUMA nodes.
	MemoryOutside
	// CacheUnclear means that what the pod asks of the caches cannot be read, or is not possible
	// for the container or on the machine.
	CacheUnclear
	// NoCache means that the caches, or the classes, have no room for what the pod asks of them.
	NoCache
	// TooFewDevices means that too few devices are free.
	TooFewDevices
	// StateFull means that the state would exceed the limits of the state file.
	StateFull
	// NotHere means that the pod to resize has no grant.
	NotHere
	// NotResizable means that the change concerns something that Kubernetes never resizes.
	NotResizable
	// OtherPolicy means that the pod was admitted under a policy that gave it other assignments.
	OtherPolicy
	// Crossing means that a container or pool would begin or cease to have something of its own.
	Crossing
	// BelowBaseline means that the pod would have fewer CPUs than it was admitted with.
	BelowBaseline
	// SlicesApart means that the pool is large enough, but only if slices of containers are moved.
	SlicesApart
	// PinnedInside means that the program of the pod pins its threads itself, once.
	PinnedInside
	// BeingMoved means that the pod is being moved. It is resized afterwards.
	BeingMoved
	// KubeletPanics means that the admission makes the kubelet panic. Only a Behavior has this
	// cause and the next ones.
	KubeletPanics
	// KubeletHangs means that the admission never ends, and the kubelet serves nothing else.
	KubeletHangs
	// MemoryUnread means that the amount of memory has a fraction of a byte.
	MemoryUnread
)

// Down reports whether the admission takes the kubelet down.
func (c Cause) Down() bool { return c == KubeletPanics || c == KubeletHangs }

// Names returns what people read about the cause: the reason, and the rule by which the pod was
// rejected. resource is the resource of the rejection. single is set if the Topology Manager policy
// is single-numa-node.
func (c Cause) Names(resource request.Resource, single bool) (Reason, string) {
	alignment := "R-HINT-62"
	if single {
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
		CacheUnclear:         {UnexpectedAdmissionError, "R-CACHE-4"},
		NoCache:              {UnexpectedAdmissionError, "R-CACHE-20"},
		TooFewDevices:        {UnexpectedAdmissionError, "R-HINT-42"},
		StateFull:            {UnexpectedAdmissionError, "R-ST-2"},
		NotHere:              {Infeasible, "R-RSZ-1"},
		NotResizable:         {Infeasible, "R-RSZ-2"},
		OtherPolicy:          {Infeasible, "R-RSZ-3"},
		Crossing:             {Infeasible, "R-RSZ-4"},
		BelowBaseline:        {Infeasible, "R-RSZ-5"},
		SlicesApart:          {Infeasible, "R-RSZ-18"},
		PinnedInside:         {Infeasible, "R-RSZ-8"},
		BeingMoved:           {Deferred, "R-MOV-10"},
		KubeletPanics:        {UnexpectedAdmissionError, "R-HINT-35"},
		KubeletHangs:         {UnexpectedAdmissionError, "R-CPU-58"},
		MemoryUnread:         {UnexpectedAdmissionError, "R-DEM-32"},
	}
	return names[c].reason, names[c].rule
}
