package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// planPool gives a pod-level pod one pool, aligned as one, and divides it (KEP-5526, Pod Scope).
func (d *draft) planPool() *rejection.Rejection {
	if d.way == staying {
		d.met(FaultAdmitsAgain, "")
	}
	if d.s.policy.Behavior.UnreadFractions && d.pod.FractionalMemory && d.s.policy.StaticMemory {
		d.met(FaultUnreadFractions, "")
	}
	d.trace.Divisions = make([]Division, 0, 1+len(d.demand.Together.Memory))
	if d.demand.Together.CPUs > 0 {
		d.divide(request.CPU, int64(d.demand.Together.CPUs))
	}
	if d.demand.FractionalCPUs {
		d.note("the pod-level cpu request is not a whole number: neither the pod nor any container gets CPUs of its own")
	}
	for _, budget := range d.demand.Together.Memory {
		d.divide(budget.Resource, budget.Value)
	}
	choice, rejection := d.chooseNodes("", &d.demand.Together, d.hintSets(&d.demand.Together, together)) // R-HINT-20, R-HINT-30
	if rejection != nil {
		return rejection
	}
	for i := range d.containers {
		d.containers[i].Affinity = choice
		if rejection := d.allocateDevices(i, choice); rejection != nil && !d.s.policy.Behavior.LateDevices {
			return rejection
		}
	}
	if d.s.policy.Behavior.LateDevices && len(d.demand.Together.Devices) > 0 {
		d.met(FaultLateDevices, "")
	}
	if rejection := d.takePoolCPUs(choice); rejection != nil {
		return rejection
	}
	return d.takePoolMemory(choice)
}

// divide computes the division of the pool for one resource.
func (d *draft) divide(resource request.Resource, budget int64) {
	var room [16]layout.Claim // Most pods have fewer containers.
	claims := appendPoolClaims(room[:0], &d.pod, resource)
	v := Division{Resource: resource, Layout: layout.Divide(budget, claims)}
	if resource == request.CPU && d.s.apart(&d.pod) {
		d.s.divideApart(&v, claims)
	}
	switch {
	case v.Empty != layout.NotEmpty, d.findsEmpty(&v):
		v.Fault = rejection.PoolEmpty
	case v.Overdrawn:
		v.Fault = rejection.PoolOverdrawn
	}
	d.trace.Divisions = append(d.trace.Divisions, v)
}

// takePoolCPUs takes the pool and cuts the slices (R-CPU-90…94).
func (d *draft) takePoolCPUs(choice hint.Choice) *rejection.Rejection {
	if d.demand.Together.CPUs == 0 {
		return nil
	}
	d.trace.Stage = StageCPU
	d.trace.Requests.CPU++
	v := &d.trace.Divisions[0]
	if v.Fault != rejection.NoCause {
		return d.rejectDivision(v, v.Fault)
	}
	pool, rejection := d.choosePool(v, choice)
	if rejection != nil {
		return rejection
	}
	if d.way == asking && !v.InParts { // A division without fault has CPUs for every slice.
		return nil
	}
	d.pool = pool
	left := pool // without the slices of the sidecars and apps so far, in start order
	for i, piece := range v.Pieces {
		switch piece.Part {
		case layout.WholePool:
			d.containers[i].CPUs = d.s.sharedPart(v, left)
		case layout.Slice:
			d.trace.Requests.CPU++
			set, rejection := d.chooseSlice(i, int(piece.Amount), left)
			if rejection != nil {
				return rejection
			}
			d.containers[i].CPUs = set
			if rejection := d.takeClass(i, set); rejection != nil {
				return rejection
			}
			if d.pod.Containers[i].Type != request.Init {
				left = left.Difference(set)
			}
		case layout.Rest:
		}
	}
	for i, piece := range v.Pieces {
		if piece.Part == layout.Rest {
			d.containers[i].CPUs = d.s.sharedPart(v, left)
		}
		if v.InParts && piece.Part != layout.Slice {
			v.Pieces[i].Amount = int64(d.containers[i].CPUs.Len())
		}
	}
	return d.takePoolClass(v)
}

// freeSlice lets the CPU allocator choose the slice of container i, from what is left of the pool.
func (d *draft) freeSlice(i, n int, left cpuset.Set) (cpuset.Set, *rejection.Rejection) {
	v := &d.trace.Divisions[0]
	set, err := d.chooseFree(func(o cpu.Options) (cpuset.Set, error) {
		if v.InParts {
			return d.s.takeSlice(left, n)
		}
		return cpu.Take(d.s.machine, o, left, n)
	})
	if err != nil {
		return set, d.rejectCPU(d.nameOf(i), n, err)
	}
	return set, nil
}

// takePoolMemory takes the pool's memory once and shows every container its part (R-MEM-50…55).
func (d *draft) takePoolMemory(choice hint.Choice) *rejection.Rejection {
	budget := d.demand.Together.Memory
	if len(budget) == 0 {
		return nil
	}
	d.trace.Stage = StageMemory
	d.trace.Requests.Memory++
	divisions := d.trace.Divisions[len(d.trace.Divisions)-len(budget):]
	for k := range divisions {
		if v := &divisions[k]; v.Fault != rejection.NoCause {
			return d.rejectDivision(v, v.Fault)
		}
	}
	for _, c := range d.pod.Containers {
		for _, a := range c.Memory {
			// A type that the pod-level budget lacks: defaulting and validation leave none.
			if _, budgeted := d.pod.BudgetMemory.Get(a.Resource); !budgeted && a.Value > 0 {
				return d.rejectDivision(&Division{Resource: a.Resource, Fault: rejection.PoolOverdrawn}, rejection.PoolOverdrawn)
			}
		}
	}
	choice, rejection := d.chooseMemory(together, choice)
	if rejection != nil {
		return rejection
	}
	nodes, rejection := d.place("", budget, choice)
	if rejection != nil {
		return rejection
	}
	if d.way == asking {
		return nil
	}
	d.poolMemory = make([]memory.Block, len(divisions))
	for k, v := range divisions {
		d.poolMemory[k] = memory.Block{Type: v.Resource, Size: v.Budget, Nodes: nodes}
	}
	d.usage = d.usage.Charge(d.poolMemory, nil)
	d.showParts(divisions, nodes)
	return nil
}

// showParts shows every container its part of the pool's memory. The blocks of all containers share
// one backing array.
func (d *draft) showParts(divisions []Division, nodes mask.Mask) {
	count := 0
	for k := range divisions {
		for _, piece := range divisions[k].Pieces {
			if piece.Amount > 0 {
				count++
			}
		}
	}
	blocks := make([]memory.Block, 0, count)
	for i := range d.containers {
		first := len(blocks)
		for k := range divisions {
			if v := &divisions[k]; v.Pieces[i].Amount > 0 {
				blocks = append(blocks, memory.Block{Type: v.Resource, Size: v.Pieces[i].Amount, Nodes: nodes})
			}
		}
		if got := &d.containers[i]; len(blocks) > first {
			got.Memory, got.MemoryNodes = blocks[first:len(blocks):len(blocks)], nodes
		}
		d.trace.Requests.Memory += min(1, len(d.demand.Containers[i].Memory))
	}
}
