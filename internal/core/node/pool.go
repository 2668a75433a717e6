package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// planPool gives a pod-level pod one pool, aligned as one, and divides it (KEP-5526, Pod Scope).
func (d *draft) planPool() *Refusal {
	d.trace.Divisions = make([]Division, 0, 1+len(d.demand.Together.Memory))
	if d.demand.Together.CPUs > 0 {
		d.divide(request.CPU, int64(d.demand.Together.CPUs))
	}
	if d.demand.FractionalCPUs {
		d.note("the pod-level cpu request is not a whole number: neither the pod nor any container gets CPUs of its own (R-DEM-40)")
	}
	for _, budget := range d.demand.Together.Memory {
		d.divide(budget.Resource, budget.Value)
	}
	choice, refusal := d.merge("", d.poolFamilies())
	if refusal != nil {
		return refusal
	}
	for i := range d.containers {
		d.containers[i].Affinity = choice
		if refusal := d.allocateDevices(i, choice); refusal != nil {
			return refusal
		}
	}
	if refusal := d.takePoolCPUs(choice); refusal != nil {
		return refusal
	}
	return d.takePoolMemory(choice)
}

// divide does the arithmetic of the pool for one resource.
func (d *draft) divide(resource request.Resource, budget int64) {
	v := Division{Resource: resource, Layout: layout.Divide(budget, PoolClaims(&d.pod, resource))}
	switch {
	case v.Empty != layout.NotEmpty:
		v.Fault = PoolEmpty
	case v.Overdrawn:
		v.Fault = PoolOverdrawn
	}
	d.trace.Divisions = append(d.trace.Divisions, v)
}

// takePoolCPUs takes the pool and cuts the slices (R-CPU-90…94).
func (d *draft) takePoolCPUs(choice hint.Choice) *Refusal {
	if d.demand.Together.CPUs == 0 {
		return nil
	}
	d.trace.Stage = StageCPU
	d.trace.Requests.CPU++
	v := &d.trace.Divisions[0]
	if v.Fault != NoCause {
		return d.refuseDivision(v, v.Fault)
	}
	pool, refusal := d.allocateCPUs("", int(v.Budget), choice)
	if refusal != nil {
		return refusal
	}
	d.pool = pool
	return d.dividePool(v.Pieces)
}

// dividePool walks the containers in the order in which they start. left is the pool less the
// slices of the sidecars and apps so far.
func (d *draft) dividePool(pieces []layout.Piece) *Refusal {
	left := d.pool
	for i, piece := range pieces {
		switch piece.Part {
		case layout.WholePool:
			d.containers[i].CPUs = left
		case layout.Slice:
			d.trace.Requests.CPU++
			set, err := cpu.Take(d.s.machine, d.s.policy.CPU, left, int(piece.Amount))
			if err != nil {
				return d.refuseCPU(d.pod.Containers[i].Name, int(piece.Amount), err)
			}
			d.containers[i].CPUs = set
			if d.pod.Containers[i].Lane != request.Init {
				left = left.Difference(set)
			}
		case layout.Rest:
		}
	}
	for i, piece := range pieces {
		if piece.Part == layout.Rest {
			d.containers[i].CPUs = left
		}
	}
	return nil
}

// takePoolMemory takes the pool's memory once and shows every container its part (R-MEM-50…55).
func (d *draft) takePoolMemory(choice hint.Choice) *Refusal {
	budget := d.demand.Together.Memory
	if len(budget) == 0 {
		return nil
	}
	d.trace.Stage = StageMemory
	d.trace.Requests.Memory++
	divisions := d.trace.Divisions[len(d.trace.Divisions)-len(budget):]
	for k := range divisions {
		if v := &divisions[k]; v.Fault != NoCause {
			return d.refuseDivision(v, v.Fault)
		}
	}
	if v := d.outsideBudget(); v != nil {
		return d.refuseDivision(v, v.Fault)
	}
	nodes, err := d.usage.Place(budget, choice, d.reusableMemory)
	if err != nil {
		return d.refuseMemory("", err)
	}
	d.poolMemory = make([]memory.Block, len(divisions))
	for k, v := range divisions {
		d.poolMemory[k] = memory.Block{Type: v.Resource, Size: v.Budget, Nodes: nodes}
	}
	d.usage = d.usage.Charge(d.poolMemory, nil)
	for i := range d.containers {
		got := &d.containers[i]
		for _, v := range divisions {
			if size := v.Pieces[i].Amount; size > 0 {
				got.Memory = append(got.Memory, memory.Block{Type: v.Resource, Size: size, Nodes: nodes})
				got.MemoryNodes = nodes
			}
		}
		d.trace.Requests.Memory += min(1, len(d.demand.Containers[i].Memory))
	}
	return nil
}

// outsideBudget returns a type that an exclusive container wants and the pod-level budget lacks;
// defaulting and validation leave none.
func (d *draft) outsideBudget() *Division {
	for _, c := range d.pod.Containers {
		for _, a := range c.Memory {
			if _, budgeted := d.pod.BudgetMemory.Get(a.Resource); !budgeted && a.Value > 0 {
				return &Division{Resource: a.Resource, Fault: PoolOverdrawn}
			}
		}
	}
	return nil
}
