// Package request represents, in numbers, what a pod asks of the Kubernetes node.
//
// Package podspec makes a Pod from a v1.Pod and the feature gates. It converts quantities, and
// decides the QoS class and which containers qualify for exclusive CPUs or memory
// (docs/rules/demand.md), so that no package that uses this one reads a gate or parses a quantity.
// A Pod never changes once it is made.
//
// # The same request
//
// A Pod has three parts: its Identity, its Ask, by which a node decides, and Notes, by which it
// does not decide. Ask.Key is the only definition of "the same request". Its uses differ in whether
// the devices that others chose count, and whether it must be the same pod:
//
//	Ask.Key            every node answers the same: the classes of a fleet, the pods for which a
//	                   scheduler keeps answers, the signature of a pod
//	Ask.Own            the ask without the devices that others chose
//	Pod.Equal          Identity and the key of Own: a pod asks for what it has a grant for. So a
//	                   resize, a move that was planned before, and a grant that is handed over can
//	                   detect a changed request; devices do not change while a pod runs
//	Pod.SameQuestion   Identity and Key: a pod that was rejected asks again
//
// A digest of Identity and Own is published with a grant (codec/handover). It has its own form,
// which other versions read. A key is only for comparisons within one process, and its form may
// change.
package request

import (
	"slices"
	"strings"
)

// Resource is the name of a managed resource: CPU, "memory", or "hugepages-<size>". A device
// resource has the name of its extended resource.
type Resource = string

// CPU is the resource whose amounts are whole CPUs. All memory resources are in bytes.
const CPU Resource = "cpu"

// Memory is ordinary memory. The name of a huge page resource is HugePagesPrefix followed by the
// page size, e.g. "hugepages-2Mi".
const (
	Memory          Resource = "memory"
	HugePagesPrefix string   = "hugepages-"
)

// IsMemory reports whether r is memory or huge pages, whose amounts are in bytes. It is false for
// CPUs and devices.
func IsMemory(r Resource) bool { return r == Memory || strings.HasPrefix(r, HugePagesPrefix) }

// Amount is a quantity of one resource.
type Amount struct {
	Resource Resource
	Value    int64 // whole CPUs, bytes or devices; never negative
}

// Amounts is a list of amounts, ascending by resource name, each name once.
type Amounts []Amount

// Get returns the amount of r, and whether a contains r at all.
func (a Amounts) Get(r Resource) (int64, bool) {
	for _, x := range a {
		if x.Resource == r {
			return x.Value, true
		}
	}
	return 0, false
}

// With returns a with the amount of r set to value.
func (a Amounts) With(r Resource, value int64) Amounts {
	i, found := a.find(r)
	out := slices.Clone(a)
	if found {
		out[i].Value = value
		return out
	}
	return slices.Insert(out, i, Amount{r, value})
}

// Plus returns the sum of a and b. Either may be shared with the result if the other is empty.
func (a Amounts) Plus(b Amounts) Amounts {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	out := slices.Clone(a)
	for _, x := range b {
		if i, found := out.find(x.Resource); found {
			out[i].Value += x.Value
		} else {
			out = slices.Insert(out, i, x)
		}
	}
	return out
}

// find returns the index of r, or the one at which to insert it.
func (a Amounts) find(r Resource) (i int, found bool) {
	return slices.BinarySearchFunc(a, r, func(x Amount, r Resource) int { return strings.Compare(x.Resource, r) })
}

//go:generate stringer -type=QoS,Kind,ContainerType,Sharing,Consent -linecomment -output=enum_string.go

// QoS is the quality-of-service class of a pod (R-DEM-10…15).
type QoS int

// The classes, as Kubernetes names them.
const (
	BestEffort QoS = iota
	Burstable
	Guaranteed
)

// Kind decides which rules apply to a pod (R-DEM-1, R-DEM-26).
type Kind int

const (
	// Plain pods have no pod-level resources: each container counts by itself.
	Plain Kind = iota // plain
	// PodLevel pods have pod-level resources, and the feature gate PodLevelResourceManagers is on.
	// Under scope pod they get one pool.
	PodLevel // pod-level
	// Unmanaged pods have pod-level resources, and the feature gate is off. The managers do not
	// manage them (R-DEM-26).
	Unmanaged // unmanaged
)

// ContainerType describes when a container runs, which decides with which containers it can share.
type ContainerType int

const (
	// Init containers run one after the other. Each ends before the next one starts.
	Init ContainerType = iota // init
	// Sidecar is an init container with restartPolicy Always: it runs until the pod ends.
	Sidecar // sidecar
	// App is a container of spec.containers.
	App // app
)

// Consent describes how far a running pod may be moved (R-MOV-3). A higher value includes the lower
// ones.
type Consent int

const (
	// NeverMoves means that the pod's CPUs and memory stay where they are under every policy.
	NeverMoves Consent = iota - 1 // none
	// NoMoves means that the pod consents to no move. A policy that moves all pods still moves its
	// CPUs.
	NoMoves // no consent
	// MoveCPUs allows moves to other CPUs of the same NUMA nodes.
	MoveCPUs // within-numa
	// MoveMemory allows moves of the CPUs and the memory to other NUMA nodes.
	MoveMemory // anywhere
)

// Sharing is the reason, for people, why a container has no exclusive CPUs.
type Sharing int

// The reasons. See Rule.
const (
	// NotShared means that the container qualifies for exclusive CPUs.
	NotShared        Sharing = iota // it has exclusive CPUs
	QoSNotGuaranteed                // the pod is not Guaranteed
	NotEquivalent                   // its own cpu and memory requests and limits are not all set and equal
	FractionalCPU                   // its cpu request is not a whole number
	NoCPURequest                    // it requests no cpu
	GateOff                         // the pod has pod-level resources and feature gate PodLevelResourceManagers is off
	Estimated                       // what it asks for is not known: its pod is estimated from cgroup numbers
)

// Rule returns the id of the rule behind the reason, as in docs/rules, or "" if there is none.
func (s Sharing) Rule() string {
	return [...]string{
		NotShared: "", QoSNotGuaranteed: "R-DEM-20", NotEquivalent: "R-DEM-22", FractionalCPU: "R-DEM-23", NoCPURequest: "R-DEM-23",
		GateOff: "R-DEM-26", Estimated: "",
	}[s]
}

// Container is what one container asks for, with the devices that others chose for it, and notes.
// Everything except the notes is in the key of the pod (Ask.Key).
type Container struct {
	Name string
	Type ContainerType
	// CPUs is the number of exclusive CPUs for which the container qualifies. If 0, it shares CPUs
	// (R-DEM-20…25). In an Unmanaged pod, the number may be positive, but has no effect.
	CPUs int
	// Sharing is why CPUs is 0.
	Sharing Sharing
	// Memory is the memory that is pinned for the container: "memory" and huge pages in bytes,
	// including amounts of zero. If empty, it shares memory (R-DEM-30…33).
	Memory Amounts
	// Equivalent is set if the container's own cpu and memory requests are set and equal to the
	// limits (R-DEM-22).
	Equivalent bool
	// HugePages has the names of the huge page resources that the container requests or limits,
	// except those with an amount of zero. It shows which of the containers that share can use a
	// pool's huge pages.
	HugePages []Resource
	// Devices are the extended resources in the container's limits, positive counts only, whether
	// or not a device inventory has them (R-HINT-40).
	Devices Amounts
	// CPURequest and CPULimit are in thousandths of a CPU. Zero means not set. The quota depends on
	// them, the placement does not.
	CPURequest, CPULimit int64
	// Cache is the part of its caches that the container asks for.
	Cache Cache
	// FractionalMemory is set if an amount of memory that a kubelet reads has a fraction of a byte.
	// Paddock rounds it up. No rule of Paddock depends on the field: it is set for a kubelet
	// alone, and is not kept with a grant.
	FractionalMemory bool
	// Given are the devices that others chose for the container, ascending by Given.Compare, each
	// once. The container does not ask for them itself.
	Given []Given
	ContainerNotes
}

// ContainerNotes is information about a container that is only reported. No decision of a node
// depends on it.
type ContainerNotes struct {
	// Claims are the ResourceClaims that the container uses, by their names in the pod, ascending,
	// each once. This package does not know what they ask for.
	Claims []string
	// MemoryRequest and MemoryLimit are the requests and limits of memory and huge pages, in bytes,
	// of a container of a PodLevel pod, pinned or not, positive values only. Their only use is a
	// comparison with the pod-level budget, as the API makes it (R-DEM-94 to R-DEM-96). They are
	// not kept with a grant.
	MemoryRequest, MemoryLimit Amounts
}

// Exclusive reports whether the container qualifies for its own CPUs.
func (c Container) Exclusive() bool { return c.CPUs > 0 }

// Pod is the identity of a pod, what it asks for, and what is only reported about it.
type Pod struct {
	Identity
	Ask
	Notes
}

// SharedPoolAnnotation is the annotation of a pod whose containers share isolated CPUs too, and
// SharedPoolIsolated is its value (Ask.SharesIsolated).
const (
	SharedPoolAnnotation = "paddock-project.github.io/shared-pool"
	SharedPoolIsolated   = "isolated"
)

// Identity identifies a pod. It is unique to each pod.
type Identity struct{ UID, Namespace, Name string }

// Ask is what a node decides by: what the pod asks for, and what is known about the devices that
// others chose for it. See Key and Own.
type Ask struct {
	QoS  QoS
	Kind Kind
	// BudgetCPUs and BudgetMemory are the pod-level budget of a PodLevel pod (R-DEM-40, R-DEM-51).
	// BudgetCPUs is in whole CPUs. It is 0 if the pod-level cpu request is missing or fractional,
	// or if the pod is not Guaranteed. BudgetMemory is in bytes per type, positive values only.
	// They are zero and nil for other kinds, whose budget follows from the containers (layout).
	BudgetCPUs   int
	BudgetMemory Amounts
	// BudgetCPUMilli is the pod-level cpu request in thousandths of a CPU. It distinguishes a
	// fractional budget from a missing one.
	BudgetCPUMilli int64
	// CPULimit is the pod-level cpu limit in thousandths of a CPU. Zero means not set.
	CPULimit int64
	// SharesIsolated is set if the containers that share a pool may run on isolated CPUs
	// (R-CPU-136).
	SharesIsolated bool
	// PoolCache is the part of the caches that the containers that share the pod's pool ask for.
	PoolCache Cache
	// CacheUnclear is the reason why what the pod asks of the caches is not known: an annotation
	// that cannot be read. The text is for people: decisions depend only on whether it is empty.
	CacheUnclear string
	// Estimated is set if the pod's specification was not available. Its request as a whole was
	// then read from the numbers of its cgroup, and its containers are not known. The only entry of
	// Containers is AnyContainer, which represents all containers and has nothing of its own.
	Estimated bool
	// FractionalMemory is the equivalent of Container.FractionalMemory for the pod-level budget.
	FractionalMemory bool
	// Containers are the init containers (standard and sidecars) in spec order, then the app
	// containers in spec order. Ephemeral containers are not included.
	Containers []Container
	// Stock is the devices that the node has of the resources and drivers of given devices,
	// ascending by name. For a resource or driver without an entry, only the pod's own devices
	// count (R-DEV-3).
	Stock []Stock
	// DevicesUnknown is the reason why the devices that others chose for the containers are not
	// known. If empty, Given has them all. The text is for people: decisions depend only on whether
	// it is empty.
	DevicesUnknown string
}

// Notes is information about a pod that is only reported, or on which decisions about other pods
// and about changes of the running pod depend. The admission of the pod does not depend on it.
type Notes struct {
	// Priority and Created show which pods to spare first if room is needed. Created is in seconds
	// since 1970, 0 if not known.
	Priority int32
	Created  int64
	// Moves is how far the pod's owner allows its containers to be moved while they run.
	Moves Consent
	// VirtualMachine is set if the pod runs a virtual machine, whose virtual CPUs are pinned to the
	// CPUs of the pod once, when the machine starts. The state does not contain it: it is not set
	// for a pod that was read from there.
	VirtualMachine bool
	// ResourceClaims are the claims that the containers use, ascending by name.
	ResourceClaims []Claim
}

// ID returns "namespace/name", the name by which people know the pod.
func (p Pod) ID() string { return p.Namespace + "/" + p.Name }

// AnyContainer is the name of the container that represents all containers of a pod whose request
// is estimated. No container in Kubernetes can have this name.
const AnyContainer = "*"

// Container returns the container of that name and its index, or -1. For a pod whose request is
// estimated, it returns AnyContainer for every name.
func (p Pod) Container(name string) (Container, int) {
	if p.Estimated && name != "" {
		name = AnyContainer
	}
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return p.Containers[i], i
		}
	}
	return Container{}, -1
}

// AsksForDevices reports whether a container asks for devices that others choose: by an extended
// resource or by a ResourceClaim.
func (p Pod) AsksForDevices() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return len(c.Devices) > 0 || len(c.Claims) > 0 })
}
