package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Trace records how a decision was made, in the order of the flow.
type Trace struct {
	// Demand is what the pod asked for. For a known pod, it is the demand for which it has its
	// grant.
	Demand Demand
	// Divisions are the divisions of a pod-level pool: CPUs, then every type of the pod's
	// BudgetMemory. They are empty for other pods.
	Divisions  []Division
	Alignments []Alignment
	// Method is how exclusive CPUs are picked. BySocket is set if the sockets of the aligned NUMA
	// nodes are aligned as a whole (R-CPU-82).
	Method   cpu.Method
	BySocket bool
	// Stage is the last stage that the admission reached, and Requests counts the requests to the
	// managers until then. For a known pod, they are those of its admission.
	Stage    Stage
	Requests Requests
	// Cause is why the pod was rejected.
	Cause rejection.Cause
	// Taken is what the containers of a rejected pod had been given before one of them could not be
	// served. It is parallel to the pod's containers, and nil for other pods. The pod does not keep
	// any of it.
	Taken []ContainerGrant
	// Met are the points at which the decision followed a kubelet (Policy.Behavior), in the order
	// of the flow. It is nil where Paddock decides.
	Met []Met
	// Notes are remarks that people should see although the pod is admitted.
	Notes []string
}

// Stage is the last stage that an admission reached: the manager that was asked last.
type Stage int

// The stages, in the order of the flow. If the containers of a pod are served one by one, it passes
// through the stages again for each container.
const (
	StageBegin    Stage = iota // none
	StageTopology              // the Topology Manager
	StageDevices               // the device manager
	StageCPU                   // the CPU manager
	StageMemory                // the memory manager
	StageEnd                   // all of them, and none rejected the pod
)

// Division is how a pod-level pool is divided.
type Division struct {
	Resource request.Resource
	layout.Layout
	// InParts is set if a pool of CPUs has a part for exclusive containers, of Exclusive CPUs, and
	// one that the other containers share, without isolated CPUs.
	InParts   bool
	Exclusive int64
	// Fault is why the pool cannot be divided. NoCause means that it can.
	Fault rejection.Cause
}

// Wrong describes the fault of a division in words. It returns "" if there is none.
func (v *Division) Wrong() string {
	switch {
	case v.Fault == rejection.PoolOverdrawn:
		return "exclusive containers request more than the pod-level request of " + request.Words(v.Resource, v.Budget)
	case v.Fault != rejection.PoolEmpty:
		return ""
	case v.InParts:
		return fmt.Sprintf("exclusive containers take %d of the pod's %s, and none is left that is not isolated for the containers that share",
			v.Exclusive, request.Words(request.CPU, v.Budget))
	case v.Empty == layout.EmptyForInit:
		return "exclusive sidecars take all of the pod's " + v.Resource + ", none is left for an init container that shares"
	}
	return "exclusive containers take all of the pod's " + v.Resource + ", none is left for the containers that share"
}

// Rule returns the id of the rule behind a division's fault, as in docs/rules.
func (v *Division) Rule() string {
	_, rule := v.Fault.Names(v.Resource, false)
	return rule
}

// Alignment is one request to the Topology Manager.
type Alignment struct {
	// Container is the container that was aligned. If empty, the pod was aligned as a whole.
	Container string
	// Given are the given devices. The first of HintSets belong to them, one to each.
	Given    []GivenDevices
	HintSets []hint.Set
	Choice   hint.Choice
	Outcome  Outcome
}

// Outcome is the outcome of an alignment. Choice has whether the policy admits it.
type Outcome int

const (
	// NotPreferred means that no set of NUMA nodes is preferred by every resource.
	NotPreferred Outcome = iota
	// Preferred means that every resource prefers the chosen NUMA nodes.
	Preferred
	// Indifferent means that nothing has a preference.
	Indifferent
	// Unsatisfiable means that a resource fits nowhere (R-HINT-11).
	Unsatisfiable
	// MemoryNowhere means that no set of NUMA nodes has enough memory. The merge does not know that
	// (R-HINT-34). The pod is rejected when memory is placed.
	MemoryNowhere
	// MemoryApart means that no set of NUMA nodes has enough memory for the containers together, so
	// the pod is not aligned: the policy rejects it, or each container is placed by itself.
	MemoryApart
	// OutOfSteps means that the search reached its limit without an answer.
	OutOfSteps
)

// Requests counts the requests to the CPU manager and to the memory manager, for a pool and for
// containers.
type Requests struct{ CPU, Memory int }

// requests returns the number of requests of an admission that no manager rejects.
func (d *Demand) requests() Requests {
	var r Requests
	count := func(a *Ask) {
		r.CPU += min(1, a.CPUs)
		r.Memory += min(1, len(a.Memory))
	}
	if d.Path == AsPool {
		count(&d.Together)
	}
	for i := range d.Containers {
		count(&d.Containers[i].Ask)
	}
	return r
}

// outcomeOf returns the outcome of a merge.
func outcomeOf(hintSets []hint.Set, choice hint.Choice) Outcome {
	var nowhere, memory, asked bool
	for i := range hintSets {
		switch f := &hintSets[i]; f.Kind {
		case hint.None:
			nowhere, asked = true, true
		case hint.Any:
			memory = memory || request.IsMemory(f.Resource)
		case hint.Fits:
			asked = true
		}
	}
	switch {
	case choice.Unsolved:
		return OutOfSteps
	case nowhere && !choice.Admit:
		return Unsatisfiable
	case memory:
		return MemoryNowhere
	case nowhere:
		return Unsatisfiable
	case !asked:
		return Indifferent
	case choice.Preferred:
		return Preferred
	}
	return NotPreferred
}
