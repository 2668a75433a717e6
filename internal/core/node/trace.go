package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Trace is how a decision was made, in the order of the flow.
type Trace struct {
	// Demand is what was asked for; of a pod that is known, what its grant is for.
	Demand Demand
	// Divisions are those of a pod-level pool: CPUs, then every type of the pod's BudgetMemory.
	// Empty for other pods.
	Divisions  []Division
	Alignments []Alignment
	// Method is how exclusive CPUs are picked. BySocket: the sockets of the aligned NUMA nodes are
	// aligned as a whole (R-CPU-82).
	Method   cpu.Method
	BySocket bool
	// Stage is how far the admission came, Requests what the managers were asked until then. Of a
	// pod that is known they are those of its admission.
	Stage    Stage
	Requests Requests
	// Cause is why the pod was rejected.
	Cause Cause
	// Taken is what the containers of a rejected pod had been given before one of them could not
	// be served; parallel to the pod's containers, nil for others. The pod has nothing of it.
	Taken []ContainerGrant
	// Met are the points at which the decision went the way of a kubelet (Policy.Behavior), in the
	// order of the flow; nil where Paddock decides.
	Met []Met
	// Notes are remarks that people should see although the pod is admitted.
	Notes []string
}

// Stage is how far an admission came: who was asked last.
type Stage int

// The stages, in the order of the flow; a pod whose containers are served one by one passes through
// them again for each.
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
	// Fault is why the pool cannot be divided; NoCause: it can.
	Fault Cause
}

// Wrong is the fault of a division in words; empty where there is none.
func (v *Division) Wrong() string {
	switch {
	case v.Fault == PoolOverdrawn:
		return "exclusive containers want more than the pod-level request of " + amountText(v.Resource, v.Budget)
	case v.Fault != PoolEmpty:
		return ""
	case v.Empty == layout.EmptyForInit:
		return "exclusive sidecars take all of the pod's " + v.Resource + ", none is left for an init container that shares"
	}
	return "exclusive containers take all of the pod's " + v.Resource + ", none is left for the containers that share"
}

// Rule is the rule behind a division's fault, as in docs/rules.
func (v *Division) Rule() string {
	_, rule := v.Fault.names(v.Resource, TopologyNone)
	return rule
}

// Alignment is one question to the Topology Manager.
type Alignment struct {
	// Container is who was aligned; empty for the pod as a whole.
	Container string
	// Given are the given devices. The first of HintSets are theirs, one each.
	Given    []GivenDevices
	HintSets []hint.Set
	Choice   hint.Choice
	Outcome  Outcome
}

// Outcome is what came of an alignment. Whether the policy admits it is the choice's.
type Outcome int

const (
	// NotPreferred: no set of NUMA nodes is preferred by every resource.
	NotPreferred Outcome = iota
	// Preferred by every resource.
	Preferred
	// Indifferent: nothing has a preference.
	Indifferent
	// Unsatisfiable: a resource fits nowhere (R-HINT-11).
	Unsatisfiable
	// MemoryNowhere: no set of NUMA nodes has enough memory. The merge knows nothing of it
	// (R-HINT-34); the pod is rejected when memory is placed.
	MemoryNowhere
	// MemoryApart: the same for the containers together, so that the pod is not aligned: the policy
	// rejects it, or each container is placed by itself.
	MemoryApart
	// OutOfSteps: the search reached its limit without an answer.
	OutOfSteps
)

// Requests counts questions to the CPU manager and to the memory manager: for a pool, and for
// containers.
type Requests struct{ CPU, Memory int }

// requests are those of an admission that no manager rejects.
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

// outcomeOf is what came of a merge.
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
