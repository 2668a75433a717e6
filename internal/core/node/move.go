package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Replan decides where the pod of a grant would be if it came now to a state that it has left
// (R-MOV-2). The pod does not get again what it gave back since its admission: the grant of the
// plan has exactly what a move takes to the new place. A container that has grown keeps a baseline
// of as many CPUs as before. Devices stay: a running pod gets none from an inventory that came
// later.
func (s *State) Replan(g *Grant) *Plan {
	p := s.plan(g.Pod, 0, OnItsWay)
	if p.Rejection != nil || p.Known {
		return p
	}
	return s.ReplanAt(g, p)
}

// ReplanAt turns a plan of the grant's pod, made as if the pod came now, into a Replan.
func (s *State) ReplanAt(g *Grant, p *Plan) *Plan {
	as := &resizing{old: g, was: s.Demand(&g.Pod), draft: draft{s: s, pod: g.Pod, trace: &p.Trace}}
	if g.Pod.Estimated { // R-MOV-4
		p.Grant = nil
		p.Rejection = as.reject(rejection.NotResizable, &rejection.Rejection{Detail: "the request of the pod was estimated from cgroup numbers, and it stays where it is"})
		return p
	}
	if what := as.admittedOtherwise(); what != "" {
		p.Grant = nil
		p.Rejection = as.reject(rejection.OtherPolicy, &rejection.Rejection{Detail: what + ": the policy is another than when the pod was admitted, and it stays where it is"})
		return p
	}
	to := p.Grant
	to.Sequence, to.Resized = g.Sequence, g.Resized
	anyCPUs, anyMemory := false, false
	for i := range to.Containers {
		c, was := &to.Containers[i], &g.Containers[i]
		c.Devices = was.Devices
		if was.MemoryNodes.IsEmpty() { // it was admitted while no pod got its own memory
			c.Memory, c.MemoryNodes = nil, 0
		}
		switch {
		case was.Removed:
			*c = ContainerGrant{Removed: true, Affinity: was.Affinity}
		case len(was.Memory) == 0:
			c.Memory = nil
		}
		if len(was.Cache) == 0 {
			c.Cache = nil
		}
		if n := was.Baseline.Len(); n > 0 && n < c.CPUs.Len() {
			c.Baseline = cpu.Keep(s.machine, s.policy.CPU, c.CPUs, cpuset.Set{}, n)
		}
		anyCPUs = anyCPUs || !c.CPUs.IsEmpty()
		anyMemory = anyMemory || len(c.Memory) > 0
	}
	if !anyCPUs {
		to.Pool = cpuset.Set{}
	}
	if !anyMemory {
		to.PoolMemory = nil
	}
	if len(g.PoolCache) == 0 || to.sharedCPUs().IsEmpty() {
		to.PoolCache = nil
	}
	if rejection := as.moveBaseline(to); rejection != nil {
		p.Grant, p.Rejection = nil, rejection
		return p
	}
	p.usage, p.devices = s.usage.Charge(to.Charged(), nil), s.devices
	if taken, err := takeDevices(s.devices, g.Devices()); err == nil {
		p.devices = taken
	}
	p.caches = s.caches
	if taken, err := takeClasses(s.caches, to); err == nil {
		p.caches = taken
	}
	p.unassigned = s.unassigned.Difference(to.CPUs())
	p.Delta.SharedAfter = s.sharedOf(p.unassigned)
	return p
}

// moveBaseline gives the pool of a pod at another place a baseline of as many CPUs as before.
func (r *resizing) moveBaseline(to *Grant) *rejection.Rejection {
	if _, is := r.parts(together); is && !to.Pool.IsEmpty() {
		return r.moveParts(to)
	}
	n := r.old.PoolBaseline.Len()
	if n == 0 || n >= to.Pool.Len() {
		return nil
	}
	base := sliceBaselines(to)
	if base.Len() > n { // At the admission, slices of init containers and of later containers had CPUs in common.
		return r.reject(rejection.SlicesApart, &rejection.Rejection{Resource: request.CPU, Wanted: int64(n), Detail: fmt.Sprintf(
			"its pool was admitted with %s, and at another place the slices of its containers would be %d CPUs: it could not be resized back", request.Words(request.CPU, int64(n)), base.Len())})
	}
	to.PoolBaseline = above(cpu.Keep(r.s.machine, r.s.policy.CPU, to.Pool, base, n), to.Pool)
	return nil
}

// sliceBaselines returns the CPUs of a pod's slices that no resize takes away. The pool keeps them
// as well.
func sliceBaselines(g *Grant) cpuset.Set {
	var b cpuset.Builder
	for i := range g.Containers {
		b.AddSet(g.BaselineOf(i))
	}
	return b.Set()
}

// Move returns the state in which an existing pod has the grant of a Replan. The place must be free
// now, or the pod's own, and not be reserved for another pod. The error wraps ErrInvariant.
func (s *State) Move(to *Grant) (*State, error) {
	old, known := s.Grant(to.Pod.UID)
	if !known {
		return nil, broken("pod %s is not on the node and cannot be moved", to.Pod.ID())
	}
	if old.Moving != nil {
		return nil, broken("pod %s is being moved already", to.Pod.ID())
	}
	if err := s.checkGrant(to, s.FreeCPUs().Union(old.CPUs())); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), err)
	}
	o := s.forMove(to.Pod.UID)
	if err := o.keptFrom(to.CPUs()); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), err)
	}
	if _, err := takeClasses(returnClasses(o.caches, old), to); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), broken("%w", err))
	}
	usage := o.usage.Release(old.Charged())
	for _, b := range to.Charged() {
		if b.Size > 0 && !usage.Fits(b.Nodes, request.Amounts{{Resource: b.Type, Value: b.Size}}) {
			return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), broken("%s on %s has no room", request.Words(b.Type, b.Size), b.Nodes.Text()))
		}
		usage = usage.Charge([]memory.Block{b}, nil)
	}
	n := s.next()
	n.unassigned = s.unassigned.Union(old.CPUs()).Difference(to.CPUs()).Intersection(s.sharable())
	n.usage = o.without(ledger{usage: usage}).usage
	n.caches = exchangeClasses(s.caches, old, to)
	moved := *to
	moved.Resized = n.generation
	n.grants = s.grants.with(&moved)
	return n, nil
}
