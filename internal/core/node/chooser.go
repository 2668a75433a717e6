package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// way is how a draft chooses the places of its pod.
type way int

const (
	// free means that the planner chooses among what is free.
	free way = iota //nolint:unused // The zero value, which no code has to name.
	// handed means that the places are those of a grant that another planner made. The rules must
	// allow each of them (State.PlanGrant).
	handed
	// staying means that the pod keeps the places that it has: a kubelet admits it again
	// (Behavior.AdmitsAgain), or it is resized. What it does not have yet is chosen among what is
	// free.
	staying
	// asking means that the planner chooses as for the way free, and that only the verdict counts
	// (State.Admits). It chooses no place that nothing after it depends on, and it writes no text.
	asking
)

// chooser chooses the places of one pod: NUMA nodes, CPUs, memory and devices. Only its methods,
// and the hints, depend on the way. The zero value is the chooser of a new pod. The methods are
// those of draft, because a chooser behind an interface would move each draft to the heap.
type chooser struct {
	way way
	// grant has the places of the ways handed and staying. It is nil for the way free.
	grant *Grant
	// wrong is the first rule that a grant of another planner breaks.
	wrong *MisplacedError
}

// had returns what the pod has already, or nil for a pod that does not stay.
func (c *chooser) had() *Grant {
	if c.way == staying {
		return c.grant
	}
	return nil
}

// chooseNodes chooses the NUMA nodes of a container or, if the name is empty, of the pod, and
// records the alignment in the trace.
func (d *draft) chooseNodes(container string, ask *Ask, hintSets []hint.Set) (hint.Choice, *rejection.Rejection) {
	d.trace.Stage = StageTopology
	rules := hint.Rules{Policy: d.s.policy.Topology.hintPolicy(), Nodes: d.s.machine.NodeMask(), Distances: d.s.distances}
	if d.way == handed {
		choice, rejection := d.handedNodes(container, hintSets, rules)
		d.recordAlignment(container, ask, hintSets, choice)
		return choice, rejection
	}
	if rejection := d.goesDown(container, hintSets); rejection != nil {
		return hint.Choice{}, rejection
	}
	if narrow, choice := d.isolatedFirst(hintSets, rules); narrow != nil {
		d.recordAlignment(container, ask, narrow, choice)
		return choice, nil
	}
	choice := hint.Merge(hintSets, rules)
	d.metMasks(container, ask, hintSets, rules, choice)
	return choice, d.checkAlignment(d.recordAlignment(container, ask, hintSets, choice))
}

// recordAlignment adds an alignment to the trace.
func (d *draft) recordAlignment(container string, ask *Ask, hintSets []hint.Set, choice hint.Choice) *Alignment {
	given := ask.Given
	if d.s.policy.Behavior.GivenUnaligned { // They have no hint sets, and are no reason of anything.
		given = nil
	}
	d.trace.Alignments = append(d.trace.Alignments, Alignment{
		Container: container, Given: given, HintSets: hintSets, Choice: choice, Outcome: outcomeOf(hintSets, choice),
	})
	return &d.trace.Alignments[len(d.trace.Alignments)-1]
}

// chooseCPUs chooses n CPUs for container i or, if i is together, for the pod's pool, and takes
// them from the node shared pool. A container keeps the CPUs that it has.
func (d *draft) chooseCPUs(i, n int, choice hint.Choice) (cpuset.Set, *rejection.Rejection) {
	own, has := d.hadCPUs(i)
	if !has || d.s.policy.Behavior.CoresWithoutOwn {
		if rejection := d.checkCores(i, n); rejection != nil {
			return cpuset.Set{}, rejection
		}
	}
	if has {
		return own, nil
	}
	if d.way == asking && d.lastCPUs(i) && d.countFree() >= n {
		return cpuset.Set{}, nil
	}
	from := d.available().Union(d.reusableCPUs)
	var set cpuset.Set
	var rejection *rejection.Rejection
	switch {
	case d.way != handed:
		set, rejection = d.freeCPUs(i, n, from, choice)
	case from.Len() < n:
		rejection = d.rejectCPU(d.nameOf(i), n, &cpu.NotEnoughError{Requested: n, Available: from.Len()})
	default:
		set, rejection = d.handedCPUs(i, n, from, choice)
	}
	d.unassigned = d.unassigned.Difference(set)
	return set, rejection
}

// checkCores applies full-pcpus-only to n CPUs of container i or, if i is together, of the pod's
// pool. handedCPUs checks which cores are free itself, including those that init containers leave.
func (d *draft) checkCores(i, n int) *rejection.Rejection {
	s := d.s
	if !s.policy.CPU.FullPCPUsOnly {
		return nil
	}
	physical := n
	if d.way != handed {
		physical = d.nearCaches(i, d.unassigned.Difference(s.withheldPhysical)).Len()
	}
	err := cpu.CheckFullCores(s.machine, s.policy.CPU, physical, n)
	if err == nil {
		return nil
	}
	if d.way == staying && i != together {
		d.met(FaultCoresWithoutOwn, d.nameOf(i))
	}
	return d.rejectCPU(d.nameOf(i), n, err)
}

// chooseSlice chooses the slice of container i, n CPUs of what is left of its pod's pool.
func (d *draft) chooseSlice(i, n int, left cpuset.Set) (cpuset.Set, *rejection.Rejection) {
	if d.way == handed {
		return d.handedSlice(i, n, left)
	}
	return d.freeSlice(i, n, left)
}

// chooseMemory chooses the NUMA nodes among which the memory of container i is placed or, if i is
// together, the memory of the pool. A container of a pod that stays is not asked about, if it keeps
// its blocks (keepsMemory).
func (d *draft) chooseMemory(i int, choice hint.Choice) (hint.Choice, *rejection.Rejection) {
	if d.way == handed {
		return d.handedMemory(i, choice)
	}
	return choice, nil
}

// chooseDevices chooses the devices of one resource for container i of a pod that does not stay.
func (d *draft) chooseDevices(i int, a request.Amount, choice hint.Choice) ([]string, *rejection.Rejection) {
	if d.way == handed {
		return d.handedDevices(i, a.Resource, int(a.Value), choice)
	}
	ids, err := d.devices.Allocate(a.Resource, a.Value, choice, d.reusableDevices.IDs(a.Resource))
	if err != nil {
		return nil, d.rejectDevices(i, a, err)
	}
	return ids, nil
}

// nameOf returns the name of container i. It is empty if i is together.
func (d *draft) nameOf(i int) string {
	if i == together {
		return ""
	}
	return d.pod.Containers[i].Name
}
