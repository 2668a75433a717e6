package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// resizePool resizes a pool with its slices, and updates the containers that share it (R-RSZ-16 to
// R-RSZ-18).
func (r *resizing) resizePool() *rejection.Rejection {
	if r.demand.Together.CPUs > 0 {
		r.divide(request.CPU, int64(r.demand.Together.CPUs))
	}
	for _, budget := range r.demand.Together.Memory {
		r.divide(budget.Resource, budget.Value)
	}
	for i := range r.trace.Divisions {
		if v := &r.trace.Divisions[i]; v.Fault != rejection.NoCause {
			r.trace.Stage = StageCPU
			return r.rejectDivision(v, v.Fault)
		}
	}
	n, base := r.demand.Together.CPUs, r.old.BaselineOfPool()
	if has := r.next.Pool.Len(); has > 0 && n != has {
		if rejection := r.checkSize("", n, base); rejection != nil {
			return rejection
		}
	}
	r.nextPoolMemory(nil)
	if rejection := r.growPool(); rejection != nil {
		return rejection
	}
	if r.next.Pool.IsEmpty() {
		return nil
	}
	if rejection := r.resizeSlices(base); rejection != nil {
		return rejection
	}
	if n < r.next.Pool.Len() {
		needed := base
		for i, piece := range r.trace.Divisions[0].Pieces {
			if piece.Part == layout.Slice {
				needed = needed.Union(r.next.Containers[i].CPUs)
			}
		}
		switch _, inParts := r.parts(together); {
		case inParts:
			if rejection := r.keepParts(needed); rejection != nil {
				return rejection
			}
		case needed.Len() > n:
			return r.rejectSlices("", n)
		default:
			r.next.Pool = cpu.Keep(r.s.machine, r.s.policy.CPU, r.next.Pool, needed, n)
		}
	}
	r.next.PoolBaseline = above(base, r.next.Pool)
	return r.shareRest()
}

// growPool gives the pool what it additionally asks for. It uses the NUMA nodes that the pool has
// if those have room for all of it.
func (r *resizing) growPool() *rejection.Rejection {
	cpus := !r.next.Pool.IsEmpty() && (r.demand.Together.CPUs > r.next.Pool.Len() || r.partsGrow())
	bytes := false
	for k, b := range r.old.PoolMemory {
		bytes = bytes || r.demand.Together.Memory[k].Value > b.Size
	}
	if !cpus && !bytes {
		return nil
	}
	all := make([]int, len(r.next.Containers))
	for i := range all {
		all[i] = i
	}
	usage := r.memory.Release(r.next.PoolMemory)
	here := hint.Choice{Mask: r.s.machine.NodesOf(r.next.Pool) | nodesOf(r.next.PoolMemory), HasMask: true}
	for i := range all {
		here.Mask |= r.here(i).Mask
	}
	if r.takePool(cpus, usage, here, true) == nil {
		return nil
	}
	r.trace.Cause = rejection.NoCause
	choice, rejection := r.align("", all, &r.demand.Together, r.available(), r.next.Pool, usage)
	if rejection != nil {
		return rejection
	}
	if rejection := r.takePool(cpus, usage, choice, false); rejection != nil {
		return rejection
	}
	for i := range r.next.Containers {
		r.next.Containers[i].Affinity = choice
	}
	return nil
}

// takePool takes the pool's CPUs, if they grow, and its memory. usage is the memory accounting
// without the pool's memory. Nothing changes if takePool returns a rejection.
func (r *resizing) takePool(cpus bool, usage memory.Usage, choice hint.Choice, stay bool) *rejection.Rejection {
	pool, blocks := r.next.Pool, r.next.PoolMemory
	if cpus {
		var err error
		if pool, err = r.extendPool(pool, choice, stay); err != nil {
			return r.rejectGrowth("", r.demand.Together.CPUs, err, stay)
		}
	}
	if len(blocks) > 0 {
		r.trace.Stage = StageMemory
		before := r.memory
		r.memory = usage
		nodes, rejection := r.place("", r.demand.Together.Memory, choice, blocks[0].Nodes, stay)
		r.memory = before
		if rejection != nil {
			return rejection
		}
		r.nextPoolMemory(blocksOn(r.demand.Together.Memory, nodes))
	}
	r.next.Pool = pool
	return nil
}

// nextPoolMemory gives the pool its blocks, and every container its part of them. If blocks is nil,
// the blocks are those of the new budget on the NUMA nodes of the old one.
func (r *resizing) nextPoolMemory(blocks []memory.Block) {
	if len(r.old.PoolMemory) == 0 {
		return
	}
	if blocks == nil {
		blocks = blocksOn(r.demand.Together.Memory, r.old.PoolMemory[0].Nodes)
	}
	r.memory = r.memory.Release(r.next.PoolMemory).Charge(blocks, nil)
	r.next.PoolMemory = blocks
	divisions := r.trace.Divisions[len(r.trace.Divisions)-len(blocks):]
	for i := range r.next.Containers {
		c, old := &r.next.Containers[i], &r.old.Containers[i]
		if c.Removed || old.MemoryNodes.IsEmpty() {
			continue
		}
		c.Memory, c.MemoryNodes = nil, blocks[0].Nodes
		for k := range divisions {
			if size := divisions[k].Pieces[i].Amount; size > 0 && len(old.Memory) > 0 {
				c.Memory = append(c.Memory, memory.Block{Type: divisions[k].Resource, Size: size, Nodes: blocks[0].Nodes})
			}
		}
	}
}

// resizeSlices cuts the slices in the pool as it is, those that shrink first. CPUs of the pool's
// baseline are the last ones to leave a slice and the first ones to join one, so that the pool can
// shrink again.
func (r *resizing) resizeSlices(poolBase cpuset.Set) *rejection.Rejection {
	m, o := r.s.machine, r.s.policy.CPU
	pieces := r.trace.Divisions[0].Pieces
	for i, piece := range pieces {
		c, n := &r.next.Containers[i], int(piece.Amount)
		if piece.Part != layout.Slice || c.Removed || n >= c.CPUs.Len() {
			continue
		}
		base := r.old.BaselineOf(i)
		if n < base.Len() {
			return r.rejectBelow(r.pod.Containers[i].Name, n, base)
		}
		first := c.CPUs.Intersection(poolBase).Union(base)
		if first.Len() < n {
			c.CPUs = cpu.Keep(m, o, c.CPUs, first, n)
		} else {
			c.CPUs = cpu.Keep(m, o, first, base, n)
		}
		c.Baseline = above(base, c.CPUs)
		r.updateClass(i)
	}
	for i, piece := range pieces {
		c, n := &r.next.Containers[i], int(piece.Amount)
		if piece.Part != layout.Slice || c.Removed || n <= c.CPUs.Len() {
			continue
		}
		r.trace.Requests.CPU++
		all := r.slicesFrom(i, poolBase).Difference(r.taken(i))
		base, free, near := r.old.BaselineOf(i), r.nearOwn(i, all), m.CPUsOf(m.NodesOf(c.CPUs))
		for _, tier := range []cpuset.Set{poolBase.Intersection(near), poolBase, near, r.next.Pool} {
			local := free.Intersection(tier).Difference(c.CPUs).Intersection(m.AllCPUs())
			set, err := cpu.Extend(m, o, c.CPUs, local, min(n, c.CPUs.Len()+local.Len()))
			if err != nil {
				return r.rejectCPU(r.pod.Containers[i].Name, n, err)
			}
			c.CPUs = set
		}
		if c.CPUs.Len() < n {
			if all.Intersection(m.AllCPUs()).Union(c.CPUs).Len() >= n {
				return r.rejectClass(i, false)
			}
			return r.rejectSlices(r.pod.Containers[i].Name, n)
		}
		if !r.growClass(i) {
			return r.rejectClass(i, false)
		}
		c.Baseline = above(base, c.CPUs)
	}
	return nil
}

// shareRest gives what the slices leave to the containers that share, like takePoolCPUs.
func (r *resizing) shareRest() *rejection.Rejection {
	left := r.next.Pool // without the slices of the sidecars and apps so far
	v := &r.trace.Divisions[0]
	for i, piece := range v.Pieces {
		c := &r.next.Containers[i]
		switch {
		case c.Removed:
		case piece.Part == layout.WholePool:
			c.CPUs = r.s.sharedPart(v, left)
		case piece.Part == layout.Slice && r.pod.Containers[i].Type != request.Init:
			left = left.Difference(c.CPUs)
		}
	}
	for i, piece := range v.Pieces {
		c := &r.next.Containers[i]
		if c.Removed || piece.Part == layout.Slice {
			continue
		}
		if piece.Part == layout.Rest {
			c.CPUs = r.s.sharedPart(v, left)
		}
		if v.InParts && c.CPUs.IsEmpty() {
			return r.rejectSlices("", int(v.Budget))
		}
	}
	return r.updatePoolClass()
}
