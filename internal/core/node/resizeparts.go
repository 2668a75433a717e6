package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// partsGrow reports whether a part of the pool needs more CPUs, whether the pool as a whole does or
// not (R-CPU-137).
func (r *resizing) partsGrow() bool {
	parts, is := r.parts(together)
	if !is {
		return false
	}
	isolated := r.next.Pool.IntersectionLen(r.s.isolated)
	return parts.Shared > r.next.Pool.Len()-isolated || r.s.policy.CPU.Isolated == cpu.IsolatedOnly && parts.Exclusive > isolated
}

// extendPool returns the pool with the CPUs that it additionally asks for. Of a pool in parts, the
// shared part grows first, because only some CPUs serve for it.
func (r *resizing) extendPool(pool cpuset.Set, choice hint.Choice, stay bool) (cpuset.Set, error) {
	parts, is := r.parts(together)
	if !is {
		return r.extend(pool, r.available(), r.demand.Together.CPUs, choice, stay)
	}
	isolated, shared := pool.Intersection(r.s.isolated), pool.Difference(r.s.isolated)
	var err error
	if n := parts.Shared; n > shared.Len() {
		if shared, err = r.extend(shared, r.free().Difference(r.s.isolated), n, choice, stay); err != nil {
			return cpuset.Set{}, err
		}
	}
	if r.s.policy.CPU.Isolated == cpu.IsolatedOnly {
		if n := parts.Exclusive; n > isolated.Len() {
			isolated, err = r.extend(isolated, r.available(), n, choice, stay)
		}
		return isolated.Union(shared), err
	}
	pool = isolated.Union(shared)
	if n := r.demand.Together.CPUs; n > pool.Len() {
		return r.extend(pool, r.available().Difference(shared), n, choice, stay)
	}
	return pool, nil
}

// slicesFrom returns the CPUs of the pool from which slices are cut.
func (r *resizing) slicesFrom() cpuset.Set {
	if _, is := r.parts(together); is && r.s.policy.CPU.Isolated == cpu.IsolatedOnly {
		return r.next.Pool.Intersection(r.s.isolated)
	}
	return r.next.Pool
}

// keepParts takes from a pool in parts what it does not need any more. It keeps needed.
func (r *resizing) keepParts(needed cpuset.Set) *rejection.Rejection {
	m, o, isolated := r.s.machine, r.s.policy.CPU, r.s.isolated
	parts, _ := r.parts(together)
	reject := func() *rejection.Rejection {
		n := parts.Exclusive + parts.Shared
		return r.reject(rejection.SlicesApart, &rejection.Rejection{Resource: request.CPU, Wanted: int64(n), Detail: fmt.Sprintf(
			"the pool would have %s, and it keeps %d isolated CPUs and %d others (%s), which it was admitted with or its exclusive containers have: create the pod again",
			parts.Words(o), needed.IntersectionLen(isolated), needed.Difference(isolated).Len(), needed)})
	}
	pool, others := r.next.Pool, r.next.Pool.Difference(isolated)
	if o.Isolated == cpu.IsolatedOnly {
		keeps, shares := needed.Intersection(isolated), needed.Difference(isolated)
		if keeps.Len() > parts.Exclusive || shares.Len() > parts.Shared {
			return reject()
		}
		r.next.Pool = cpu.Keep(m, o, pool.Intersection(isolated), keeps, parts.Exclusive).Union(cpu.Keep(m, o, others, shares, parts.Shared))
		return nil
	}
	if more := parts.Shared - needed.Difference(isolated).Len(); more > 0 {
		needed = needed.Union(cpu.Keep(m, o, others.Difference(needed), cpuset.Set{}, more))
	}
	if needed.Len() > parts.Exclusive+parts.Shared {
		return reject()
	}
	r.next.Pool = cpu.Keep(m, o, pool, needed, parts.Exclusive+parts.Shared)
	return nil
}

// onlineParts returns the parts without what the pool has of each that is offline.
func (r *resizing) onlineParts(parts cpu.Parts, kept cpuset.Set) cpu.Parts {
	offline := kept.Difference(r.s.machine.AllCPUs())
	isolated := offline.IntersectionLen(r.s.isolated)
	parts.Exclusive = max(0, parts.Exclusive-isolated)
	parts.Shared = max(0, parts.Shared-(offline.Len()-isolated))
	return parts
}
