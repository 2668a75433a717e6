package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Behavior is where a kubelet decides otherwise than Paddock. The zero value is Paddock's own
// rules.
//
// The planner reads each field at one point, and records in the trace when the field changed its
// way (Trace.Met). A field that is not set costs one comparison. kubelet/behavior fills the fields
// for a version of Kubernetes. Each comment names the quirk of docs/rules/quirks.md and the
// versions that have it, of 1.36.3 and 1.37.2.
//
// A node with a Behavior can leave the invariants: it assigns CPUs twice and counts memory twice.
// What its grants do not explain is its residue (State.Residue).
type Behavior struct {
	// AdmitsAgain: Plan decides about a pod that is known as about a new one. A kubelet does so
	// with every pod after its restart. Containers keep CPUs and memory that they have by
	// themselves; a pool is taken again, beside the first one. 1.36 and 1.37.
	AdmitsAgain bool
	// CoresWithoutOwn: of a pod that is admitted again, full-pcpus-only counts the free cores
	// without those that the container has. 1.36.
	CoresWithoutOwn bool
	// EndedInits: of a pod that is admitted again, init containers that have ended get memory again
	// . 1.36 and 1.37.
	EndedInits bool
	// KeepsReuse: what init containers leave to later containers is kept for the pod that was
	// served last, also after it is gone. A pod with the same UID then takes CPUs that other pods
	// have, and memory that is not charged. 1.36 and 1.37.
	KeepsReuse bool
	// KeepsRejected: a pod that is rejected keeps what it was given until the next pod comes or
	// goes. 1.36 and 1.37.
	KeepsRejected bool
	// PinsNothing: a container that shares the memory of its pod asks for NUMA nodes for a request
	// of nothing, under scope container and topology policy none. 1.36.
	PinsNothing bool
	// LateDevices: devices of a pod with a pool are taken when its containers start, so that an
	// admission does not fail for them. 1.36 and 1.37.
	LateDevices bool
	// PanicsAtUnknownPages: huge pages of a size that the machine does not have end the kubelet
	// . 1.36 and 1.37.
	PanicsAtUnknownPages bool
	// UnusedPages: a pool is empty if huge pages are used up that no container that shares requests
	// . 1.36 and 1.37.
	UnusedPages bool
	// MemoryNowhere: memory that fits on no set of NUMA nodes has no preference, so that a pod
	// counts as aligned. A rejection by the memory manager is an UnexpectedAdmissionError.
	// 1.36 and 1.37.
	MemoryNowhere bool
	// SingleOfGroup: one NUMA node of a group gives memory to a pod that is aligned on it alone
	// . 1.36 and 1.37.
	SingleOfGroup bool
	// UnreadFractions: an amount of memory with a fraction of a byte is not read. 1.36 and
	// 1.37.
	UnreadFractions bool
	// InitMemoryAnywhere: memory that only init containers request can be on more NUMA nodes than
	// are aligned. 1.36 and 1.37.
	InitMemoryAnywhere bool
	// DistancesByPosition: prefer-closest-numa-nodes takes a NUMA node id for a position in the
	// list of distances, and panics where ids have gaps. 1.36 and 1.37.
	DistancesByPosition bool
	// GivenUnaligned: CPUs and memory are not aligned with devices of claims. 1.36 and 1.37.
	GivenUnaligned bool
	// CPU are the points in the choice of CPUs.
	CPU cpu.Behavior
}

// Fault is a field of Behavior as a cause.
type Fault uint8

// The faults, each named after its field; String is in words.
const (
	NoFault                   Fault = iota // unknown
	FaultAdmitsAgain                       // admitted again
	FaultCoresWithoutOwn                   // cores counted without its own
	FaultEndedInits                        // memory of ended init containers
	FaultKeepsReuse                        // reuse of what its UID left
	FaultKeepsRejected                     // rejected
	FaultPinsNothing                       // request of no memory
	FaultLateDevices                       // devices taken late
	FaultPanicsAtUnknownPages              // unknown huge pages
	FaultUnusedPages                       // unused huge pages
	FaultMemoryNowhere                     // memory that fits nowhere
	FaultSingleOfGroup                     // one NUMA node of a group
	FaultUnreadFractions                   // fraction of a byte
	FaultInitMemoryAnywhere                // memory of init containers
	FaultDistancesByPosition               // gaps in NUMA node ids
	FaultAverageUnits                      // uneven cores or sockets
	FaultSharedSubsets                     // overwritten subset
	FaultEndlessRemainder                  // endless remainder
)

// Met is a point at which a decision went a kubelet's way.
type Met struct {
	Fault Fault
	// Container is the container that was served; empty: the pod as a whole.
	Container string
	// Nodes are the NUMA nodes of SingleOfGroup.
	Nodes mask.Mask
}

// As returns the policy of a kubelet with a behavior. The zero Behavior is Paddock's.
func (p Policy) As(b Behavior) Policy {
	p.Behavior, p.CPU.Behavior = b, b.CPU
	return p
}

// PlanAs is Plan with another behavior: the answer that a kubelet with the behavior would give on
// this state, or with the zero value that Paddock would give. The plan is to be read; Apply rejects
// it where it breaks an invariant of s.
func (s *State) PlanAs(b Behavior, pod request.Pod) *Plan {
	if b == (Behavior{}) {
		s = s.Swept()
	}
	other := *s
	other.policy = s.policy.As(b)
	return other.Plan(pod)
}

// Memory is the accounting of the state after the plan. Of a rejected pod it has nothing.
func (p *Plan) Memory() memory.Usage { return p.usage }

// met records that the decision went a kubelet's way.
func (d *draft) met(f Fault, container string) {
	d.trace.Met = append(d.trace.Met, Met{Fault: f, Container: container})
}
