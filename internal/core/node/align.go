package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/request"
)

// alignContainer merges the hints of one container (R-HINT-64).
func (d *draft) alignContainer(i int) (hint.Choice, *Refusal) {
	return d.merge(d.pod.Containers[i].Name, d.families(&d.demand.Containers[i].Ask))
}

// alignSum merges the hints of a pod without a budget of its own: what its containers need
// together (R-HINT-65, R-DEM-41, R-DEM-50).
func (d *draft) alignSum() (hint.Choice, *Refusal) {
	choice, refusal := d.merge("", d.families(&d.demand.Together))
	if refusal != nil || d.trace.Alignments[0].Outcome != MemoryNowhere {
		return choice, refusal
	}
	return d.apart(choice)
}

// families are the hints of what is asked for: one family for each device resource (R-HINT-42,
// R-HINT-43), then one for CPUs and one for memory.
func (d *draft) families(ask *Ask) []hint.Set {
	families := make([]hint.Set, 0, len(ask.Devices)+2)
	for _, a := range ask.Devices {
		families = append(families, d.devices.Hints(a.Resource, a.Value, d.reusableDevices.IDs(a.Resource)))
	}
	if ask.CPUs > 0 {
		families = append(families, cpu.Hints(d.s.machine, d.s.policy.CPU, d.available(), d.reusableCPUs, ask.CPUs))
	}
	if len(ask.Memory) > 0 {
		families = append(families, d.usage.Hints(ask.Memory, d.reusableMemory))
	}
	return families
}

// apart decides about a pod whose containers want memory that fits no set of NUMA nodes together. To
// the reference such memory has no preference (R-HINT-34), so that the pod counts as aligned and its
// containers lie wherever each of them fits. Here it is not aligned: restricted and
// single-numa-node reject it, best-effort serves each container by itself, and the plan has a note.
func (d *draft) apart(choice hint.Choice) (hint.Choice, *Refusal) {
	asked := &d.trace.Alignments[0]
	choice.Preferred, choice.Admit = false, !d.s.policy.Strict()
	if !slices.ContainsFunc(asked.Families, func(f hint.Set) bool { return f.Kind != hint.Any }) {
		choice.HasMask = false // Nothing else has a preference: the mask is all NUMA nodes, for want of a better one.
	}
	asked.Choice, asked.Outcome = choice, MemoryApart
	if !choice.Admit {
		return choice, d.refuseApart(d.demand.Together.Memory)
	}
	return choice, nil
}

// noteApart remarks on a pod that is admitted although it is not aligned.
func (d *draft) noteApart() {
	if slices.ContainsFunc(d.trace.Alignments, func(a Alignment) bool { return a.Outcome == MemoryApart }) {
		d.note("no set of NUMA nodes has enough memory for the containers together: each is placed by itself, and the pod is not aligned (Q-26)")
	}
}

// merge asks the Topology Manager and records the answer in the trace.
func (d *draft) merge(container string, families []hint.Set) (hint.Choice, *Refusal) {
	d.trace.Stage = StageTopology
	choice := hint.Merge(families, hint.Rules{
		Policy: d.s.policy.Topology.hintPolicy(), Nodes: d.s.machine.NodeMask(), Distances: d.s.distances,
	})
	d.trace.Alignments = append(d.trace.Alignments, Alignment{
		Container: container, Families: families, Choice: choice, Outcome: outcomeOf(families, choice),
	})
	if choice.Unproven || choice.Unsolved {
		d.note("the search for NUMA nodes ended at its limit: " + choice.Why)
	}
	if !choice.Admit {
		return choice, d.refuseAlignment(&d.trace.Alignments[len(d.trace.Alignments)-1])
	}
	return choice, nil
}

func (d *draft) note(text string) { d.trace.Notes = append(d.trace.Notes, text) }

// poolFamilies are the hints of a pod-level pod's budget (R-HINT-20, R-HINT-30). A budget that
// leaves a sharing container nothing is unsatisfiable for the Topology Manager (R-DEM-64).
func (d *draft) poolFamilies() []hint.Set {
	families := d.families(&d.demand.Together)
	for _, v := range d.trace.Divisions {
		if v.Fault != PoolEmpty {
			continue
		}
		i := len(families) - 1 // Memory is the last.
		if v.Resource == request.CPU {
			i = len(d.demand.Together.Devices)
		}
		families[i] = hint.Set{Resource: v.Resource, Kind: hint.None, Why: v.Wrong()}
	}
	return families
}
