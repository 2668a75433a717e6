package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/request"
)

// alignContainer merges the hints of one container (R-HINT-64).
func (d *draft) alignContainer(i int) (hint.Choice, *Refusal) {
	families := d.deviceFamilies(d.wantsDevices(i))
	if n := d.wantsCPUs(i); n > 0 {
		families = append(families, d.cpuHints(n))
	}
	if want := d.wantsMemory(i); len(want) > 0 {
		families = append(families, d.usage.Hints(want, d.reusableMemory))
	}
	return d.merge(d.pod.Containers[i].Name, families)
}

// alignSum merges the hints of a pod without a budget of its own: what its containers need
// together (R-HINT-65, R-DEM-41, R-DEM-50).
func (d *draft) alignSum() (hint.Choice, *Refusal) {
	families := d.deviceFamilies(d.deviceSum())
	if n := layout.Budget(d.claims(func(i int) (int64, bool) { return int64(d.wantsCPUs(i)), true })); n > 0 {
		families = append(families, d.cpuHints(int(n)))
	}
	want, nowhere := d.memorySum(), false
	if len(want) > 0 {
		f := d.usage.Hints(want, d.reusableMemory)
		families, nowhere = append(families, f), f.Kind == hint.Any
	}
	choice, refusal := d.merge("", families)
	if refusal != nil || !nowhere {
		return choice, refusal
	}
	return d.apart(want, choice)
}

// apart decides about a pod whose containers want memory that fits no set of NUMA nodes together. To
// the reference such memory has no preference (R-HINT-34), so that the pod counts as aligned and its
// containers lie wherever each of them fits. Here it is not aligned: restricted and
// single-numa-node reject it, best-effort serves each container by itself, and the plan has a note.
func (d *draft) apart(want request.Amounts, choice hint.Choice) (hint.Choice, *Refusal) {
	asked := &d.trace.Alignments[len(d.trace.Alignments)-1]
	choice.Preferred, choice.Admit = false, !d.strict()
	if !slices.ContainsFunc(asked.Families, func(f hint.Set) bool { return f.Kind != hint.Any }) {
		choice.HasMask = false // Nothing else has a preference: the mask is all NUMA nodes, for want of a better one.
	}
	asked.Choice, asked.Apart = choice, true
	if !choice.Admit {
		return choice, d.refuseApart(want)
	}
	return choice, nil
}

// noteApart remarks on a pod that is admitted although it is not aligned.
func (d *draft) noteApart() {
	if slices.ContainsFunc(d.trace.Alignments, func(a Alignment) bool { return a.Apart }) {
		d.note("no set of NUMA nodes has enough memory for the containers together: each is placed by itself, and the pod is not aligned (Q-26)")
	}
}

// strict tells whether the policy rejects what is not aligned.
func (d *draft) strict() bool {
	t := d.s.policy.Topology
	return t == TopologyRestricted || t == TopologySingleNUMANode
}

func (d *draft) claims(of func(i int) (amount int64, exclusive bool)) []layout.Claim {
	claims := make([]layout.Claim, len(d.pod.Containers))
	for i, c := range d.pod.Containers {
		claims[i].Lane = c.Lane
		claims[i].Amount, claims[i].Exclusive = of(i)
	}
	return claims
}

// memorySum is the budget of a pod's containers per type; types that no app container asks for
// are left out (R-DEM-50).
func (d *draft) memorySum() request.Amounts {
	var sum request.Amounts
	for i, c := range d.pod.Containers {
		if c.Lane != request.App {
			continue
		}
		for _, a := range d.wantsMemory(i) {
			if _, done := sum.Get(a.Resource); done {
				continue
			}
			sum = sum.With(a.Resource, layout.Budget(d.claims(func(k int) (int64, bool) {
				return d.wantsMemory(k).Get(a.Resource)
			})))
		}
	}
	return sum
}

func (d *draft) cpuHints(n int) hint.Set {
	return cpu.Hints(d.s.machine, d.s.policy.CPU, d.available(), d.reusableCPUs, n)
}

// merge asks the Topology Manager and records the answer in the trace.
func (d *draft) merge(container string, families []hint.Set) (hint.Choice, *Refusal) {
	choice := hint.Merge(families, hint.Rules{
		Policy: d.s.policy.Topology.hintPolicy(), Nodes: d.s.machine.NodeMask(), Distances: d.s.distances,
	})
	d.trace.Alignments = append(d.trace.Alignments, Alignment{Container: container, Families: families, Choice: choice})
	if choice.Unproven || choice.Unsolved {
		d.note("the search for NUMA nodes ended at its limit: " + choice.Why)
	}
	if !choice.Admit {
		return choice, d.refuseAlignment(container, families, choice)
	}
	return choice, nil
}

func (d *draft) note(text string) { d.trace.Notes = append(d.trace.Notes, text) }

// poolFamilies are the hints of a pod-level pod's budget (R-HINT-20, R-HINT-30). A budget that
// leaves a sharing container nothing is unsatisfiable for the Topology Manager (R-DEM-64).
func (d *draft) poolFamilies() []hint.Set {
	families := d.deviceFamilies(d.deviceSum())
	if d.pod.BudgetCPUs > 0 && d.s.policy.StaticCPU {
		f := d.cpuHints(d.pod.BudgetCPUs)
		if d.trace.CPULayout.Empty != layout.NotEmpty {
			f = hint.Set{Resource: request.CPU, Kind: hint.None, Why: emptyText(request.CPU, d.trace.CPULayout.Empty)}
		}
		families = append(families, f)
	}
	if len(d.trace.MemoryLayouts) == 0 {
		return families
	}
	f := d.usage.Hints(d.pod.BudgetMemory, d.reusableMemory)
	for k, l := range d.trace.MemoryLayouts {
		if l.Empty != layout.NotEmpty {
			resource := d.pod.BudgetMemory[k].Resource
			f = hint.Set{Resource: resource, Kind: hint.None, Why: emptyText(resource, l.Empty)}
		}
	}
	return append(families, f)
}
