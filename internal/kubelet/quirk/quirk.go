package quirk

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ID is the number of a quirk, as in docs/rules/quirks.md.
type ID string

// The quirks that the package names.
const (
	SecondPool       ID = "Q-1"
	SharedMemory     ID = "Q-3"
	LateDevices      ID = "Q-4"
	EndlessRemainder ID = "Q-5"
	UnknownPages     ID = "Q-6"
	UnusedPages      ID = "Q-8"
	LastSubset       ID = "Q-14"
	SlowMerge        ID = "Q-17"
	OwnCores         ID = "Q-18"
	EmptyDefault     ID = "Q-21"
	GateOff          ID = "Q-23"
	MemoryNowhere    ID = "Q-26"
	EndedInit        ID = "Q-39"
	SingleOfGroup    ID = "Q-41"
	FractionalBytes  ID = "Q-42"
	InitMemory       ID = "Q-43"
	AverageUnits     ID = "Q-44"
	SameUID          ID = "Q-45"
	NodeGaps         ID = "Q-46"
	ManyNodes        ID = "Q-47"
	ChangedConfig    ID = "Q-48"
	WholeCores       ID = "Q-49"
	OtherMasks       ID = "Q-50"
	LatePlugins      ID = "Q-51"
)

// Effect is what a quirk changes.
type Effect string

// The effects.
const (
	// Rejected means that Paddock's rules admit the pod and the kubelet rejects it. Admitted is the
	// opposite.
	Rejected Effect = "rejected"
	Admitted Effect = "admitted"
	// OtherCPUs and OtherMemory mean that both admit the pod, on different CPUs or NUMA nodes.
	OtherCPUs   Effect = "other CPUs"
	OtherMemory Effect = "other memory"
	// CountedTwice means that the pod keeps its memory, but the node has less free memory than it
	// should.
	CountedTwice Effect = "memory counted twice"
	// Lost means that CPUs are lost until the kubelet's state files are deleted.
	Lost Effect = "CPUs lost"
	// Down means that the kubelet panics or never finishes the admission.
	Down Effect = "kubelet down"
	// NoStart means that the kubelet does not start.
	NoStart Effect = "kubelet does not start"
	// Possible means that pods can meet the quirk. Text describes which.
	Possible Effect = "possible"
)

// Quirk is one fault of the kubelet and its effect.
type Quirk struct {
	// ID is empty if the answer differs for a reason that has no number.
	ID     ID     `json:"id,omitempty"`
	Effect Effect `json:"effect"`
	// Container is the first container that meets the fault. If empty, the fault concerns the pod
	// or the node.
	Container string `json:"container,omitempty"`
	// Certain is false if the answer depends on something that no state contains.
	Certain bool `json:"certain"`
	// Text is a sentence for the user: what the kubelet does, and why.
	Text string `json:"text"`
}

// String returns the quirk in one line.
func (q Quirk) String() string {
	if q.ID == "" {
		return fmt.Sprintf("%s: %s", q.Effect, q.Text)
	}
	return fmt.Sprintf("%s (%s): %s", q.ID, q.Effect, q.Text)
}

// reasons are the reasons why the kubelet's answer differs, as the end of a sentence about a pod.
var reasons = map[ID]string{
	SecondPool:       "it assigns a second pool to a pod-level pod that it admitted before, and does not release the first",
	SharedMemory:     "it asks for pinned memory for a container that shares its pod's memory and requests none",
	LateDevices:      "it assigns devices of a pod with a pool when the containers start, not at admission, so that they can be taken by then",
	EndlessRemainder: "it distributes a remainder in whole cores over NUMA nodes that have only half cores left, without end; the node's kubelet hangs",
	UnknownPages:     "it panics at huge pages of a size that the node does not have, also after its restart while the pod is there",
	UnusedPages:      "it finds the pool empty when huge pages are used up that no sharing container requests",
	LastSubset:       "it overwrites the last NUMA node of the set over which it distributes CPUs",
	OwnCores:         "with full-pcpus-only, it counts free cores without those that the pod already has",
	MemoryNowhere:    "it takes memory that fits on no set of NUMA nodes for memory without a preference, and does not align the pod",
	EndedInit:        "it assigns memory to an init container that has ended",
	SingleOfGroup:    "it gives memory of one NUMA node of a group to a pod that is aligned to that NUMA node alone",
	FractionalBytes:  "it cannot read an amount of memory with a fraction of a byte",
	InitMemory:       "it places memory that only init containers request on more NUMA nodes than are aligned",
	AverageUnits:     "it takes a core or socket as free when as many CPUs are free as an average one has, and then assigns all of it, also CPUs that are reserved or assigned",
	SameUID:          "it keeps what init containers left of a removed pod, and a pod with the same UID reuses it although others may have it",
	WholeCores:       "with prefer-align-cpus-by-uncorecache, it takes a part of a cache in whole cores only, so that a request with half a core spans two caches",
	SlowMerge:        "it visits every combination of the hints of its resources, which takes more than a minute, and serves nothing else meanwhile",
	OtherMasks:       "it merges hints of devices on NUMA nodes that none of the devices is near",
	LatePlugins:      "after its restart it asks for the devices of an init container that has ended again, and rejects the pod if their device plugin has not registered by then",
	NodeGaps:         "prefer-closest-numa-nodes looks up distances by NUMA node id, and the ids have gaps: it panics",
}

// advice describes what to do about a pod that the kubelet rejects or that takes the kubelet down.
var advice = map[ID]string{
	SecondPool:       "replace the pod with a new one, and drain the node before the next restart of the kubelet",
	SharedMemory:     "give the container CPU and memory limits equal to its requests, or set topologyManagerScope to pod",
	EndlessRemainder: "request fewer CPUs, or turn full-pcpus-only or distribute-cpus-across-numa off",
	UnknownPages:     "request huge pages of a size that the node has",
	UnusedPages:      "raise the pod-level request for huge pages",
	OwnCores:         "replace the pod with a new one when enough CPUs are free",
	EndedInit:        "replace the pod with a new one",
	FractionalBytes:  "write the amount in Mi or in bytes",
	SlowMerge:        "request fewer kinds of resources with NUMA nodes in one container (with scope pod, in one pod), or use topology policy single-numa-node",
	LatePlugins:      "drain the node before the kubelet restarts, or request the devices in a container that keeps running",
	NodeGaps:         "turn prefer-closest-numa-nodes off",
}

// subjects are the beginnings of the sentences about changed answers. %s is the kubelet's name.
var subjects = map[Effect]string{
	Rejected:     "%s rejects this pod: ",
	Admitted:     "%s admits this pod: ",
	OtherCPUs:    "%s assigns other CPUs: ",
	OtherMemory:  "%s assigns other memory: ",
	CountedTwice: "%s counts the memory of this pod twice: ",
	Down:         "this pod takes %s down: ",
}

// ids maps the points at which a kubelet decides differently to their quirks.
var ids = map[node.Fault]ID{
	node.FaultAdmitsAgain:          SecondPool,
	node.FaultCoresWithoutOwn:      OwnCores,
	node.FaultEndedInits:           EndedInit,
	node.FaultKeepsReuse:           SameUID,
	node.FaultPinsNothing:          SharedMemory,
	node.FaultLateDevices:          LateDevices,
	node.FaultPanicsAtUnknownPages: UnknownPages,
	node.FaultUnusedPages:          UnusedPages,
	node.FaultMemoryNowhere:        MemoryNowhere,
	node.FaultSingleOfGroup:        SingleOfGroup,
	node.FaultUnreadFractions:      FractionalBytes,
	node.FaultInitMemoryAnywhere:   InitMemory,
	node.FaultDistancesByPosition:  NodeGaps,
	node.FaultSlowMerges:           SlowMerge,
	node.FaultMasksWithoutDevices:  OtherMasks,
	node.FaultUnregisteredInits:    LatePlugins,
	node.FaultAverageUnits:         AverageUnits,
	node.FaultSharedSubsets:        LastSubset,
	node.FaultWholeCoresOfUncore:   WholeCores,
	node.FaultEndlessRemainder:     EndlessRemainder,
}

// quirks returns the quirks that a decision with a changed answer met, without duplicates. If no
// point was met, the answer has no quirk of its own, but it differs all the same.
func (k Kubelet) quirks(s *node.State, pod request.Pod, plan *node.Plan, effect Effect) []Quirk {
	subject := fmt.Sprintf(subjects[effect], k.version.Name())
	var found []Quirk
	for _, m := range k.met(s, pod, plan) {
		id := ids[m.Fault]
		if slices.ContainsFunc(found, func(q Quirk) bool { return q.ID == id }) {
			continue
		}
		text := subject + reasons[id]
		switch do, stops := advice[id], effect == Rejected || effect == Down; {
		case stops && do != "":
			text += ": " + do
		case !stops && m.Container != "":
			text += " (container " + m.Container + ")"
		}
		// It is not known which devices are left when the containers start, and which plugins have
		// registered when a kubelet starts.
		certain := m.Fault != node.FaultLateDevices && m.Fault != node.FaultUnregisteredInits
		found = append(found, Quirk{ID: id, Effect: effect, Container: m.Container, Certain: certain, Text: text})
	}
	if len(found) > 0 {
		return found
	}
	why := "its state has CPUs or memory that no pod has"
	if plan.Rejection != nil {
		why = plan.Rejection.Error()
	}
	if _, known := s.Grant(pod.UID); known {
		why += "; it decides about every pod again after its restart: replace the pod with a new one"
	}
	return []Quirk{{Effect: effect, Certain: true, Text: subject + why}}
}

// met returns the points that changed a decision. An ended init container whose memory is aligned
// again can change the answer before any memory is assigned.
func (k Kubelet) met(s *node.State, pod request.Pod, plan *node.Plan) []node.Met {
	if len(plan.Trace.Met) > 0 || plan.Rejection == nil {
		return plan.Trace.Met
	}
	without := k.behavior()
	if !without.EndedInits {
		return nil
	}
	without.EndedInits = false
	if s.PlanAs(without, pod).Rejection == nil {
		return []node.Met{{Fault: node.FaultEndedInits}}
	}
	return nil
}
