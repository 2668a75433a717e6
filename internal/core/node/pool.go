package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// planPool gives a pod-level pod one pool, aligned as one, and divides it (KEP-5526, Pod Scope).
func (d *draft) planPool() *Refusal {
	d.layoutPool()
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

// layoutPool does the arithmetic of the pool for every resource that is managed.
func (d *draft) layoutPool() {
	if d.s.policy.StaticCPU && d.pod.BudgetCPUs > 0 {
		d.trace.CPULayout = layout.Divide(int64(d.pod.BudgetCPUs), d.claims(func(i int) (int64, bool) {
			c := d.pod.Containers[i]
			return int64(c.CPUs), c.Exclusive()
		}))
	}
	if d.s.policy.StaticCPU && d.pod.BudgetCPUs == 0 && d.pod.BudgetCPUMilli%1000 != 0 && d.pod.QoS == request.Guaranteed {
		d.note("the pod-level cpu request is not a whole number: neither the pod nor any container gets CPUs of its own (R-DEM-40)")
	}
	if !d.managesMemory() {
		return
	}
	for _, budget := range d.pod.BudgetMemory {
		claims := d.claims(func(i int) (int64, bool) {
			amount, _ := d.pod.Containers[i].Memory.Get(budget.Resource)
			return amount, len(d.pod.Containers[i].Memory) > 0
		})
		for i := range claims {
			claims[i].Indifferent = budget.Resource != request.Memory && !slices.Contains(d.pod.Containers[i].HugePages, budget.Resource)
		}
		d.trace.MemoryLayouts = append(d.trace.MemoryLayouts, layout.Divide(budget.Value, claims))
	}
}

// takePoolCPUs takes the pool and cuts the slices (R-CPU-90…94).
func (d *draft) takePoolCPUs(choice hint.Choice) *Refusal {
	l := d.trace.CPULayout
	if l.Budget == 0 {
		return nil
	}
	if l.Empty != layout.NotEmpty {
		return d.refuseEmpty(request.CPU, l)
	}
	if l.Overdrawn {
		return d.refuseOverdrawn(request.CPU, l)
	}
	pool, refusal := d.allocateCPUs("", int(l.Budget), choice)
	if refusal != nil {
		return refusal
	}
	d.pool = pool
	return d.dividePool(l)
}

// dividePool walks the containers in the order in which they start. left is the pool less the
// slices of the sidecars and apps so far.
func (d *draft) dividePool(l layout.Layout) *Refusal {
	left := d.pool
	for i, piece := range l.Pieces {
		switch piece.Part {
		case layout.WholePool:
			d.containers[i].CPUs = left
		case layout.Slice:
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
	d.forRest(l, func(i int) { d.containers[i].CPUs = left })
	return nil
}

func (d *draft) forRest(l layout.Layout, give func(i int)) {
	for i, piece := range l.Pieces {
		if piece.Part == layout.Rest {
			give(i)
		}
	}
}

// takePoolMemory takes the pool's memory once and shows every container its part (R-MEM-50…55).
func (d *draft) takePoolMemory(choice hint.Choice) *Refusal {
	layouts := d.trace.MemoryLayouts
	if len(layouts) == 0 {
		return nil
	}
	for k, l := range layouts {
		if l.Empty != layout.NotEmpty {
			return d.refuseEmpty(d.pod.BudgetMemory[k].Resource, l)
		}
		if l.Overdrawn {
			return d.refuseOverdrawn(d.pod.BudgetMemory[k].Resource, l)
		}
	}
	if resource, amount := d.outsideBudget(); resource != "" {
		return d.refuseOverdrawn(resource, layout.Layout{Rest: -amount})
	}
	nodes, err := d.usage.Place(d.pod.BudgetMemory, choice, d.reusableMemory)
	if err != nil {
		return d.refuseMemory("", err)
	}
	d.poolMemory = make([]memory.Block, len(layouts))
	for k, b := range d.pod.BudgetMemory {
		d.poolMemory[k] = memory.Block{Type: b.Resource, Size: b.Value, Nodes: nodes}
	}
	d.usage = d.usage.Charge(d.poolMemory, nil)
	for i := range d.containers {
		d.containers[i].Memory = d.poolBlocks(i, nodes)
		if len(d.containers[i].Memory) > 0 {
			d.containers[i].MemoryNodes = nodes
		}
	}
	return nil
}

// outsideBudget returns a type that an exclusive container wants and the pod-level budget lacks;
// defaulting and validation leave none.
func (d *draft) outsideBudget() (request.Resource, int64) {
	for _, c := range d.pod.Containers {
		for _, a := range c.Memory {
			if _, budgeted := d.pod.BudgetMemory.Get(a.Resource); !budgeted && a.Value > 0 {
				return a.Resource, a.Value
			}
		}
	}
	return "", 0
}

// poolBlocks are container i's part of the pool's memory.
func (d *draft) poolBlocks(i int, nodes mask.Mask) []memory.Block {
	var blocks []memory.Block
	for k, l := range d.trace.MemoryLayouts {
		if size := l.Pieces[i].Amount; size > 0 {
			blocks = append(blocks, memory.Block{Type: d.pod.BudgetMemory[k].Resource, Size: size, Nodes: nodes})
		}
	}
	return blocks
}
