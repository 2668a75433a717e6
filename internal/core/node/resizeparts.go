package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
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
		return r.extend(pool, r.nearAllClasses(r.available()), r.demand.Together.CPUs, choice, stay)
	}
	isolated, shared := pool.Intersection(r.s.isolated), pool.Difference(r.s.isolated)
	var err error
	if n := parts.Shared; n > shared.Len() {
		if shared, err = r.extend(shared, r.nearAllClasses(r.free()).Difference(r.s.isolated), n, choice, stay); err != nil {
			return cpuset.Set{}, err
		}
	}
	if r.s.policy.CPU.Isolated == cpu.IsolatedOnly {
		if n := parts.Exclusive; n > isolated.Len() {
			isolated, err = r.extend(isolated, r.nearAllClasses(r.available()), n, choice, stay)
		}
		return isolated.Union(shared), err
	}
	pool = isolated.Union(shared)
	if n := r.demand.Together.CPUs; n > pool.Len() {
		return r.extend(pool, r.nearAllClasses(r.available()).Difference(shared), n, choice, stay)
	}
	return pool, nil
}

// slicesFrom returns the CPUs of the pool from which the slice of container i is cut. With
// cpu.IsolatedFirst, the slices of sidecars and apps leave the shared part enough CPUs that are not
// isolated: those that are not in the pool's baseline first.
func (r *resizing) slicesFrom(i int, poolBase cpuset.Set) cpuset.Set {
	parts, is := r.parts(together)
	switch {
	case is && r.s.policy.CPU.Isolated == cpu.IsolatedOnly:
		return r.next.Pool.Intersection(r.s.isolated)
	case !is || r.pod.Containers[i].Type == request.Init:
		return r.next.Pool
	}
	m, o := r.s.machine, r.s.policy.CPU
	others := r.next.Pool.Difference(r.s.isolated).Difference(r.running())
	n, later := min(parts.Shared, others.Len()), others.Difference(poolBase)
	if later.Len() >= n {
		return r.next.Pool.Difference(cpu.Keep(m, o, later, cpuset.Set{}, n))
	}
	return r.next.Pool.Difference(cpu.Keep(m, o, others, later, n))
}

// running returns the CPUs of the slices of sidecars and apps.
func (r *resizing) running() cpuset.Set {
	var b cpuset.Builder
	for i, piece := range r.trace.Divisions[0].Pieces {
		if piece.Part == layout.Slice && r.pod.Containers[i].Type != request.Init {
			b.AddSet(r.next.Containers[i].CPUs)
		}
	}
	return b.Set()
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
	// Some of these CPUs are in slices. While there is room, the shared part gets others for them.
	more := min(parts.Shared-needed.Difference(isolated).Difference(r.running()).Len(), parts.Exclusive+parts.Shared-needed.Len(), others.Difference(needed).Len())
	if more > 0 {
		needed = needed.Union(cpu.Keep(m, o, others.Difference(needed), cpuset.Set{}, more))
	}
	r.next.Pool = cpu.Keep(m, o, pool, needed, parts.Exclusive+parts.Shared)
	return nil
}

// moveParts is moveBaseline for a pool in parts: each part keeps as many CPUs as it was admitted
// with, because the other part cannot use them. With cpu.IsolatedFirst, the grant does not record
// how many CPUs that are not isolated were of the first part. The shared part was admitted with at
// most what the slices left.
func (r *resizing) moveParts(to *Grant) *rejection.Rejection {
	m, o, old, others := r.s.machine, r.s.policy.CPU, r.old.BaselineOfPool(), to.Pool.Difference(r.s.isolated)
	n, shared := old.Len(), old.Difference(r.s.isolated).Len()
	only := o.Isolated == cpu.IsolatedOnly
	if n >= to.Pool.Len() && (only || r.old.Resized == 0) {
		return nil
	}
	if !only {
		shared = min(shared, n-r.leastSlices())
	}
	base := sliceBaselines(to)
	share := others.Difference(base)
	share = cpu.Keep(m, o, share, cpuset.Set{}, max(0, min(shared, n-base.Len(), share.Len())))
	first := to.Pool.Difference(share)
	if only {
		first = to.Pool.Intersection(r.s.isolated)
	}
	kept := share
	if more := n - share.Len(); base.Len() <= more {
		kept = share.Union(cpu.Keep(m, o, first, base, more))
	}
	if kept.Difference(r.s.isolated).Len() < shared || kept.Len() < n || share.IsEmpty() {
		return r.reject(rejection.SlicesApart, &rejection.Rejection{Resource: request.CPU, Wanted: int64(n), Detail: fmt.Sprintf(
			"its pool was admitted with %s, up to %d of them shared and not isolated, and at another place it could keep %d of those beside the %s of its exclusive containers: it could not be resized back",
			request.Words(request.CPU, int64(n)), shared, share.Len(), request.Words(request.CPU, int64(base.Len())))})
	}
	to.PoolBaseline = above(kept, to.Pool)
	return nil
}

// leastSlices returns the least number of CPUs that the slices had together at the admission. A
// container that was removed has no baseline, and had at least one CPU.
func (r *resizing) leastSlices() int {
	n, core := 0, max(1, r.s.machine.CPUsPerCore())
	for i := range r.old.Containers {
		if c := &r.pod.Containers[i]; c.Exclusive() && c.Type != request.Init {
			n += max(1, r.old.BaselineOf(i).Len())
		}
	}
	if r.s.policy.CPU.FullPCPUsOnly {
		n = (n + core - 1) / core * core
	}
	return n
}

// onlineParts returns the parts without what the pool has of each that is offline.
func (r *resizing) onlineParts(parts cpu.Parts, kept cpuset.Set) cpu.Parts {
	offline := kept.Difference(r.s.machine.AllCPUs())
	isolated := offline.IntersectionLen(r.s.isolated)
	parts.Exclusive = max(0, parts.Exclusive-isolated)
	parts.Shared = max(0, parts.Shared-(offline.Len()-isolated))
	return parts
}
