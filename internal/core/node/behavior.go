package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Behavior describes where a kubelet decides differently from Paddock. The zero value means
// Paddock's own rules.
//
// The planner reads each field at one point, and records in the trace when the field changed a
// decision (Trace.Met). A field that is not set costs one comparison. Package kubelet/behavior sets
// the fields for a version of Kubernetes. Each comment names the quirk of docs/rules/quirks.md and
// which of the versions 1.36.3 and 1.37.2 have it.
//
// The names of the fields are part of the digest that a PaddockNode has of its kubelet's rules. A
// field that gets another name makes agents and schedulers of different versions unsure.
//
// A node with a Behavior can break the invariants: it assigns CPUs twice and counts memory twice.
// What its grants do not explain is its residue (State.Residue).
type Behavior struct {
	// AdmitsAgain makes Plan decide about a known pod as about a new one. A kubelet does so with
	// every pod after its restart. Containers keep their own CPUs and memory. A pool is taken
	// again, beside the first one. 1.36 and 1.37.
	AdmitsAgain bool
	// CoresWithoutOwn makes full-pcpus-only, for a pod that is admitted again, count the free cores
	// without those that the container already has. 1.36.
	CoresWithoutOwn bool
	// EndedInits gives memory again to init containers that have ended, if the pod is admitted
	// again. 1.36 and 1.37.
	EndedInits bool
	// KeepsReuse keeps what init containers leave to later containers for the pod that was served
	// last, even after that pod is gone. A pod with the same UID then takes CPUs that other pods
	// have, and memory that is not charged. 1.36 and 1.37.
	KeepsReuse bool
	// KeepsRejected makes a rejected pod keep what it was given until the next pod comes or goes
	// . 1.36 and 1.37.
	KeepsRejected bool
	// PinsNothing makes a container that shares the memory of its pod ask for NUMA nodes for an
	// empty request, under scope container and topology policy none. 1.36.
	PinsNothing bool
	// LateDevices takes the devices of a pod with a pool when its containers start, so that they do
	// not fail an admission. 1.36 and 1.37.
	LateDevices bool
	// PanicsAtUnknownPages makes the kubelet panic if a pod requests huge pages of a size that the
	// machine does not have. 1.36 and 1.37.
	PanicsAtUnknownPages bool
	// UnusedPages counts a pool as empty if huge pages are used up, even if no sharing container
	// requests them. 1.36 and 1.37.
	UnusedPages bool
	// MemoryNowhere gives memory that fits on no set of NUMA nodes no preference, so that the pod
	// counts as aligned. A rejection by the memory manager is an UnexpectedAdmissionError.
	// 1.36 and 1.37.
	MemoryNowhere bool
	// SingleOfGroup lets one NUMA node of a group give memory to a pod that is aligned on it alone
	// . 1.36 and 1.37.
	SingleOfGroup bool
	// UnreadFractions makes the kubelet not read an amount of memory with a fraction of a byte
	// . 1.36 and 1.37.
	UnreadFractions bool
	// InitMemoryAnywhere allows memory that only init containers request to be on more NUMA nodes
	// than the aligned ones. 1.36 and 1.37.
	InitMemoryAnywhere bool
	// DistancesByPosition makes prefer-closest-numa-nodes use a NUMA node id as a position in the
	// list of distances, and panic if the ids have gaps. 1.36 and 1.37.
	DistancesByPosition bool
	// GivenUnaligned does not align CPUs and memory with devices of claims. 1.36 and 1.37.
	GivenUnaligned bool
	// MasksWithoutDevices lets the hints of a device plugin's devices have NUMA nodes that none of
	// the devices is near. Up to 1.35.
	MasksWithoutDevices bool
	// UnregisteredInits rejects a pod that is admitted again if a standard init container had
	// devices and their device plugin has not registered since the restart: the init container has
	// ended, so that the kubelet takes it for one that still has to start. All versions.
	UnregisteredInits bool
	// SlowMerges makes the Topology Manager visit every combination of hints, which takes minutes
	// to days if there are too many. All versions.
	SlowMerges bool
	// CPU has the differences in the choice of CPUs.
	CPU cpu.Behavior
}

// Fault identifies a field of Behavior as the cause of a decision.
type Fault uint8

// The faults, each named after its field. String returns a description in words.
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
	FaultMasksWithoutDevices               // NUMA nodes without devices
	FaultUnregisteredInits                 // devices of ended init containers
	FaultSlowMerges                        // too many combinations of hints
	FaultAverageUnits                      // uneven cores or sockets
	FaultSharedSubsets                     // overwritten subset
	FaultEndlessRemainder                  // endless remainder
	FaultWholeCoresOfUncore                // whole cores of an uncore cache
)

// Met is a point at which a decision followed a kubelet instead of Paddock.
type Met struct {
	Fault Fault
	// Container is the name of the container that was served. If empty, the fault concerns the
	// whole pod.
	Container string
}

// As returns the policy with another behavior. With the zero Behavior it is Paddock's.
func (p Policy) As(b Behavior) Policy {
	p.Behavior, p.CPU.Behavior = b, b.CPU
	return p
}

// PlanAs plans with another behavior. It returns the answer that a kubelet with the behavior would
// give on this state or, for the zero value, the answer that Paddock would give. The plan is only
// for reading: Apply rejects it if it breaks an invariant of s.
func (s *State) PlanAs(b Behavior, pod request.Pod) *Plan {
	if b == (Behavior{}) {
		s = s.Swept()
	}
	other := *s
	other.basis = s.under(s.policy.As(b))
	return other.Plan(pod)
}

// Memory returns the memory accounting of the state after the plan. It is empty for a rejected pod.
func (p *Plan) Memory() memory.Usage { return p.usage }

// met records that the decision followed a kubelet.
func (d *draft) met(f Fault, container string) {
	d.trace.Met = append(d.trace.Met, Met{Fault: f, Container: container})
}
