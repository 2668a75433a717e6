// Package request is what a pod asks of the node, in numbers.
//
// A Pod is made by podspec from a v1.Pod and the feature gates: quantities, QoS and
// the question which container qualifies for exclusive CPUs or memory are settled
// there (docs/rules/demand.md), so that nothing behind this package asks a gate or
// parses a quantity. A Pod is immutable once made.
//
// # The same request
//
// A Pod has three parts: its Identity, its Ask, which a node decides by, and Notes, which it does
// not decide by. Ask.Key is the only definition of "the same request". Its uses differ in whether
// the devices count that others chose, and whether it has to be the same pod:
//
//	Ask.Key            every node answers the same: the classes of a fleet, the questions that a
//	                   scheduler keeps the answers to, the signature of a pod
//	Ask.Own            the ask without the devices that others chose
//	Pod.Equal          Identity and the key of Own: a pod asks for what it has a grant for. So a
//	                   resize, a move that was planned before, and a grant that is handed over see
//	                   whether the request changed; devices do not change while a pod runs
//	Pod.SameQuestion   Identity and Key: a pod that was rejected asks again
//
// A digest of Identity and Own is published with a grant (codec/handover). It has a form of its
// own, which other versions read. A key is for comparing in one process, and its form may change.
package request

import (
	"slices"
	"strings"
)

// Resource names a managed resource: CPU, "memory", or "hugepages-<size>". Device
// resources have their extended resource name.
type Resource = string

// CPU is the resource whose amounts are whole CPUs. All memory resources are in bytes.
const CPU Resource = "cpu"

// Memory is ordinary memory. The names of huge pages are HugePagesPrefix and the size of a page:
// "hugepages-2Mi".
const (
	Memory          Resource = "memory"
	HugePagesPrefix string   = "hugepages-"
)

// IsMemory separates memory and huge pages, whose amounts are bytes, from CPUs and devices.
func IsMemory(r Resource) bool { return r == Memory || strings.HasPrefix(r, HugePagesPrefix) }

// Amount is a quantity of one resource.
type Amount struct {
	Resource Resource
	Value    int64 // whole CPUs, bytes or devices; never negative
}

// Amounts is a list of amounts, ascending by resource name, each name once.
type Amounts []Amount

// Get returns the amount of r and whether r is named at all.
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
	i, found := slices.BinarySearchFunc(a, r, func(x Amount, r Resource) int {
		switch {
		case x.Resource < r:
			return -1
		case x.Resource > r:
			return 1
		}
		return 0
	})
	out := slices.Clone(a)
	if found {
		out[i].Value = value
		return out
	}
	return slices.Insert(out, i, Amount{r, value})
}

//go:generate go tool stringer -type=QoS,Kind,ContainerType,Sharing,Consent -linecomment -output=enum_string.go

// QoS is the quality-of-service class of a pod (R-DEM-10…15).
type QoS int

// The classes, as Kubernetes names them.
const (
	BestEffort QoS = iota
	Burstable
	Guaranteed
)

// Kind decides by which rules a pod is treated (R-DEM-1, R-DEM-26).
type Kind int

const (
	// Plain pods have no pod-level resources: each container counts by itself.
	Plain Kind = iota // plain
	// PodLevel pods have pod-level resources and the gate PodLevelResourceManagers is
	// on: under scope pod they get one pool.
	PodLevel // pod-level
	// Unmanaged pods have pod-level resources and the gate is off: the managers leave
	// them alone (R-DEM-26).
	Unmanaged // unmanaged
)

// ContainerType is when a container runs, which decides with whom it can share.
type ContainerType int

const (
	// Init containers run one after the other and end before the next starts.
	Init ContainerType = iota // init
	// Sidecar is an init container with restartPolicy Always: it runs until the pod ends.
	Sidecar // sidecar
	// App is a container of spec.containers.
	App // app
)

// Consent is how far a running pod may be moved (R-MOV-3). A higher one includes the lower ones.
type Consent int

const (
	// NeverMoves: its CPUs and memory stay where they are under every policy.
	NeverMoves Consent = iota - 1 // none
	// NoMoves: the pod consents to nothing. A policy that moves all pods moves its CPUs.
	NoMoves // no consent
	// MoveCPUs to others of the same NUMA nodes.
	MoveCPUs // within-numa
	// MoveMemory with the CPUs to other NUMA nodes.
	MoveMemory // anywhere
)

// Sharing is why a container has no exclusive CPUs, for the account given to people.
type Sharing int

// The reasons; see Rule.
const (
	// NotShared: it qualifies for exclusive CPUs.
	NotShared        Sharing = iota // it has exclusive CPUs
	QoSNotGuaranteed                // the pod is not Guaranteed
	NotEquivalent                   // its own cpu and memory requests and limits are not all set and equal
	FractionalCPU                   // its cpu request is not a whole number
	NoCPURequest                    // it requests no cpu
	GateOff                         // the pod has pod-level resources and feature gate PodLevelResourceManagers is off
	Estimated                       // what it asks for is not known: its pod is estimated from cgroup numbers
)

// Rule is the rule behind the reason, as in docs/rules; empty: none.
func (s Sharing) Rule() string {
	return [...]string{
		NotShared: "", QoSNotGuaranteed: "R-DEM-20", NotEquivalent: "R-DEM-22", FractionalCPU: "R-DEM-23", NoCPURequest: "R-DEM-23",
		GateOff: "R-DEM-26", Estimated: "",
	}[s]
}

// Container is what one container asks for, with the devices that others chose for it, and notes.
// All that is not in its notes is in the key of the pod (Ask.Key).
type Container struct {
	Name string
	Type ContainerType
	// CPUs is the number of exclusive CPUs that it qualifies for; 0: it shares
	// (R-DEM-20…25). For an Unmanaged pod the number may be positive: it is not acted on.
	CPUs int
	// Sharing is why CPUs is 0.
	Sharing Sharing
	// Memory is what it qualifies to have pinned: "memory" and huge pages in bytes,
	// zero values kept; nil or empty: it shares (R-DEM-30…33).
	Memory Amounts
	// Equivalent reports that its own cpu and memory requests are set and equal to the
	// limits (R-DEM-22).
	Equivalent bool
	// HugePages names the huge page resources that it requests or limits at all, zero
	// amounts excluded: who of the shared containers could use a pool's huge pages.
	HugePages []Resource
	// Devices are the extended resources of its limits, positive counts only, whether a device
	// inventory knows them or not (R-HINT-40).
	Devices Amounts
	// CPURequest and CPULimit are in thousandths of a CPU, 0 where not set. The quota depends on
	// them, the placement does not.
	CPURequest, CPULimit int64
	// FractionalMemory: an amount of memory that a kubelet reads has a fraction of a byte, and is
	// rounded up here. No rule of Paddock looks at it: it is set for a kubelet alone, and is
	// not kept with a grant.
	FractionalMemory bool
	// Given are the devices that others chose for the container, ascending by Given.Compare, each
	// once. It does not ask for them itself.
	Given []Given
	ContainerNotes
}

// ContainerNotes are what is only reported of a container. No decision of a node depends on them.
type ContainerNotes struct {
	// Claims are the ResourceClaims that the container uses, by their names in the pod, ascending,
	// each once. What they ask for is not known here.
	Claims []string
	// MemoryRequest and MemoryLimit are memory and huge pages in bytes as a container of a
	// PodLevel pod states them, pinned or not, positive values only. The API compares them with the
	// pod-level budget (R-DEM-94 to R-DEM-96), which is all that they are for. They are not kept
	// with a grant.
	MemoryRequest, MemoryLimit Amounts
}

// Exclusive reports whether the container qualifies for CPUs of its own.
func (c Container) Exclusive() bool { return c.CPUs > 0 }

// Pod is who a pod is, what it asks for, and what is only reported of it.
type Pod struct {
	Identity
	Ask
	Notes
}

// Identity is who a pod is. Each pod has another one.
type Identity struct{ UID, Namespace, Name string }

// Ask is what a node decides by: what the pod asks for, and what is known of the devices that
// others chose for it. See Key and Own.
type Ask struct {
	QoS  QoS
	Kind Kind
	// BudgetCPUs and BudgetMemory are the pod-level budget of a PodLevel pod (R-DEM-40,
	// R-DEM-51): whole CPUs, 0 where the pod-level cpu request is missing or fractional
	// or the pod is not Guaranteed; bytes per type, positive values only. Zero and nil for
	// other kinds: their budget follows from the containers (layout).
	BudgetCPUs   int
	BudgetMemory Amounts
	// BudgetCPUMilli is the pod-level cpu request in thousandths, to tell a fractional
	// budget from a missing one.
	BudgetCPUMilli int64
	// CPULimit is the pod-level cpu limit in thousandths of a CPU, 0 where not set.
	CPULimit int64
	// Estimated: the pod's specification was not available; what it asks for as a whole was read
	// from the numbers of its cgroup, and its containers are not known. The only one in Containers
	// is AnyContainer, which represents all of them and has nothing of its own.
	Estimated bool
	// FractionalMemory is Container.FractionalMemory of the pod-level budget.
	FractionalMemory bool
	// Containers are the init containers (standard and sidecars) in spec order, then the
	// app containers in spec order. Ephemeral containers take no part.
	Containers []Container
	// Stock is what the node has of the resources and drivers of given devices, ascending by name.
	// Without an entry only the pod's own devices count (R-DEV-3).
	Stock []Stock
	// DevicesUnknown is why it is not known which devices others chose for the containers; empty:
	// Given has them all. The reason is for people: only whether there is one decides.
	DevicesUnknown string
}

// Notes are what is only reported of a pod, or decides about other pods. What the node decides
// about the pod itself does not depend on them.
type Notes struct {
	// Priority and Created, in seconds since 1970 and 0 where not known, tell whom to spare
	// first when room is wanted.
	Priority int32
	Created  int64
	// Moves is how far the pod's owner lets its containers be moved while they run.
	Moves Consent
	// ResourceClaims are the claims that the containers use, ascending by name.
	ResourceClaims []Claim
}

// ID is "namespace/name", how people know the pod.
func (p Pod) ID() string { return p.Namespace + "/" + p.Name }

// AnyContainer is the name of the container that represents all those of a pod whose request is
// estimated. No container of Kubernetes can have it.
const AnyContainer = "*"

// Container returns the container of that name and its position. Of a pod whose request is
// estimated it is AnyContainer whatever the name.
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
