package node_test

import (
	"reflect"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
)

// checkTrace compares the trace of a plan on s with the plan: a rejection has a cause and a stage,
// what was given is what was asked for, and a known pod has the trace of its admission.
func (h *history) checkTrace(s *node.State, p *node.Plan) {
	t := &p.Trace
	rejected := p.Rejection != nil
	if rejected != (t.Cause != rejection.NoCause) || rejected == (t.Stage == node.StageEnd) {
		h.fatalf("the refusal is %v, and the trace has cause %d at stage %d", p.Rejection, t.Cause, t.Stage)
	}
	if p.Known {
		return
	}
	h.checkRequests(p)
	if rejected {
		return
	}
	h.checkAsked(p)
	next, err := s.Apply(p)
	if err != nil {
		h.fatalf("%v", err)
	}
	known := next.Plan(p.Pod).Trace
	if !reflect.DeepEqual(known.Demand, t.Demand) || known.Requests != t.Requests || known.Stage != t.Stage {
		h.fatalf("the pod is known, and its trace is %+v; it was admitted with %+v", known, t)
	}
}

// checkRequests counts what was given, including the pool: no container is given anything without a
// request, and the manager that rejected was asked once more.
func (h *history) checkRequests(p *node.Plan) {
	given, taken := node.Requests{}, p.Trace.Taken
	if g := p.Grant; g != nil {
		taken = g.Containers
		given.CPU, given.Memory = min(1, g.Pool.Len()), min(1, len(g.PoolMemory))
	}
	for i, c := range taken {
		if c.CPUs.Len() > 0 && p.Pod.Containers[i].CPUs > 0 {
			given.CPU++
		}
		if !c.MemoryNodes.IsEmpty() && len(p.Pod.Containers[i].Memory) > 0 {
			given.Memory++
		}
	}
	pool := p.Trace.Demand.Path == node.AsPool
	switch p.Trace.Stage {
	case node.StageCPU:
		given.CPU++
		if pool && p.Rejection.Container != "" { // The pool had been taken, and is dropped.
			given.CPU++
		}
	case node.StageMemory:
		given.Memory++
		if pool {
			given.CPU += min(1, p.Trace.Demand.Together.CPUs)
		}
	case node.StageTopology:
		if p.Trace.Cause == rejection.MemoryOutside {
			given.Memory++
		}
	case node.StageBegin, node.StageDevices, node.StageEnd:
	}
	if p.Trace.Requests != given {
		h.fatalf("%+v were given, with the one that rejected; the trace is %+v", given, p.Trace)
	}
}

// checkAsked compares a grant with the demand.
func (h *history) checkAsked(p *node.Plan) {
	d, g := &p.Trace.Demand, p.Grant
	pool := d.Path == node.AsPool
	if pool && g.Pool.Len() != d.Together.CPUs || pool && len(g.PoolMemory) != len(d.Together.Memory) {
		h.fatalf("the pod asks for %+v and has a pool of CPUs %s and %v", d.Together, g.Pool, g.PoolMemory)
	}
	for i, c := range g.Containers {
		asks := &d.Containers[i]
		if (asks.CPUs > 0 || !pool) && c.CPUs.Len() != asks.CPUs || len(c.Devices) != len(asks.Devices) {
			h.fatalf("container %d asks for %+v and has CPUs %s and devices %v", i, asks, c.CPUs, c.Devices)
		}
		if (len(asks.Memory) > 0 || !pool) && len(c.Memory) != len(asks.Memory) {
			h.fatalf("container %d asks for %+v and has %v", i, asks, c.Memory)
		}
	}
}
