package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// alignContainer merges the hints of container i.
func (d *draft) alignContainer(i int) (hint.Choice, *rejection.Rejection) {
	ask := &d.demand.Containers[i].Ask
	return d.chooseNodes(d.pod.Containers[i].Name, ask, d.hintSets(ask, i))
}

// alignSum merges the hints of a pod without its own budget: those of the sum of its containers'
// demand (R-HINT-65, R-DEM-41, R-DEM-50).
//
// In the reference, memory that fits no set of NUMA nodes together has no preference (R-HINT-34).
// So the pod counts as aligned, and each container is placed wherever it fits. In Paddock
// the pod is not aligned: restricted and single-numa-node reject it, best-effort serves each
// container by itself, and the plan has a note.
func (d *draft) alignSum() (hint.Choice, *rejection.Rejection) {
	choice, rejection := d.chooseNodes("", &d.demand.Together, d.hintSets(&d.demand.Together, together))
	if rejection != nil || d.s.policy.Behavior.MemoryNowhere {
		return choice, rejection
	}
	asked := &d.trace.Alignments[0]
	if asked.Outcome != MemoryNowhere {
		return choice, nil
	}
	choice.Preferred, choice.Admit = false, !d.s.policy.Strict()
	if !slices.ContainsFunc(asked.HintSets, func(f hint.Set) bool { return f.Kind != hint.Any }) {
		choice.HasMask = false // Nothing else has a preference, so the mask is all NUMA nodes.
	}
	asked.Choice, asked.Outcome = choice, MemoryApart
	if !choice.Admit {
		return choice, d.rejectApart(d.demand.Together.Memory)
	}
	return choice, nil
}

// hintSets returns the hints for a demand: one hint set for each resource or driver of given
// devices (R-DEV-2), one for each device resource (R-HINT-42, R-HINT-43), then one for CPUs and one
// for memory. of is the index of the container that asks, or together.
func (d *draft) hintSets(ask *Ask, of int) []hint.Set {
	hintSets := slices.Grow(d.buffer[:0], len(ask.Given)+len(ask.Devices)+2)
	for _, g := range ask.Given {
		if d.s.policy.Behavior.GivenUnaligned {
			break
		}
		stock := request.Stock{Of: g.Of}
		if i := slices.IndexFunc(d.pod.Stock, func(s request.Stock) bool { return s.Of == g.Of }); i >= 0 {
			stock = d.pod.Stock[i]
		}
		hintSets = append(hintSets, device.GivenHints(stock, g.Devices, d.s.machine.NodeMask()))
	}
	for _, a := range ask.Devices {
		if d.way != staying {
			hintSets = append(hintSets, d.devices.Hints(a.Resource, a.Value, d.reusableDevices.IDs(a.Resource)))
		} else if d.s.policy.Behavior.AdmitsAgain {
			hintSets = append(hintSets, d.deviceHintsAgain(a, of))
		} // A pod that is resized has its devices already.
	}
	d.widenDeviceHints(hintSets)
	if ask.CPUs > 0 {
		hintSets = append(hintSets, d.cpuHints(ask.CPUs, of))
		if !ask.Cache.IsZero() {
			hintSets = d.appendCacheHints(hintSets, ask.CPUs, of)
		}
	}
	if len(ask.Memory) > 0 && !d.unread(of) {
		hintSets = append(hintSets, d.memoryHints(ask.Memory, of))
	}
	if d.way == asking {
		d.buffer = hintSets
	}
	return hintSets
}

// together takes the place of a container's index in hintSets. It means all containers, or the
// pod's budget.
const together = -1

func (d *draft) cpuHints(n, of int) hint.Set {
	if v := d.emptyPool(func(r request.Resource) bool { return r == request.CPU }); v != nil {
		return hint.Set{Resource: v.Resource, Kind: hint.None, Why: v.Wrong()}
	}
	if d.way == staying {
		return d.cpuHintsAgain(n, of)
	}
	if parts, is := d.parts(of); is {
		return cpu.HintsApart(d.s.machine, d.s.policy.CPU, d.free(), cpuset.Set{}, parts)
	}
	return cpu.Hints(d.s.machine, d.s.policy.CPU, d.available(), d.reusableCPUs, n)
}

func (d *draft) memoryHints(want request.Amounts, of int) hint.Set {
	if v := d.emptyPool(request.IsMemory); v != nil {
		return hint.Set{Resource: v.Resource, Kind: hint.None, Why: v.Wrong()}
	}
	if blocks := d.hadMemory(of); len(blocks) > 0 {
		return regenerated(blocks, want)
	}
	if of != together && d.way == staying && d.pod.Containers[of].Type == request.Init && !d.s.policy.Behavior.EndedInits {
		return hint.Set{Resource: request.Memory} // It has ended, and gets no memory again.
	}
	set := d.usage.Hints(want, d.reusableMemory)
	d.meetHints(of, &set)
	return set
}

// emptyPool returns the last division, among those of resources for which of reports true, that
// leaves nothing to a container that shares. In that case the budget is unsatisfiable for the
// Topology Manager (R-DEM-64). It returns nil if there is no such division.
func (d *draft) emptyPool(of func(request.Resource) bool) *Division {
	for i := len(d.trace.Divisions) - 1; i >= 0; i-- {
		if v := &d.trace.Divisions[i]; v.Fault == rejection.PoolEmpty && of(v.Resource) {
			return v
		}
	}
	return nil
}

// checkAlignment adds notes about the choice of the Topology Manager. It returns a rejection if the
// policy does not admit the choice.
func (d *draft) checkAlignment(a *Alignment) *rejection.Rejection {
	if a.Choice.Unproven || a.Choice.Unsolved {
		d.note("the search for NUMA nodes ended at its limit: " + a.Choice.Why)
	}
	if !a.Choice.Admit {
		return d.rejectAlignment(a)
	}
	if len(a.Given) > 0 && a.Outcome == NotPreferred && d.way != asking {
		d.noteUnaligned(a)
	}
	return nil
}

func (d *draft) note(text string) { d.trace.Notes = append(d.trace.Notes, text) }
