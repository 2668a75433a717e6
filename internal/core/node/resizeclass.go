package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
)

// wantOf returns what a class that exists has of each cache. A resize changes which caches a class
// has shares of, and never how much.
func wantOf(c cache.Class) cache.Want {
	if len(c) == 0 {
		return cache.Want{}
	}
	return cache.Want{Ways: c[0].Ways.Len(), Bandwidth: c[0].Bandwidth}
}

// keepCaches sets what the containers have of the caches already, whatever the option is now. A
// resize does not change it.
func (d *Demand) keepCaches(g *Grant) {
	if len(d.Containers) != len(g.Containers) {
		return
	}
	d.Together.Cache, d.PoolCache = cache.Want{}, wantOf(g.PoolCache)
	for i := range d.Containers {
		d.Containers[i].Cache = wantOf(g.Containers[i].Cache)
	}
	if d.Path == AsOne || d.Path == AsPool {
		for _, c := range g.Classes() {
			d.Together.Cache.Ways += wantOf(c).Ways
			d.Together.Cache.Bandwidth += wantOf(c).Bandwidth
		}
	}
}

// growth returns the shares that the classes of the containers or, of a pod with a pool, all
// classes of the pod would have of the caches to which they come. It returns nil if there are none.
func (r *resizing) growth(unit []int) *cache.Layout {
	var have []cache.Class
	if r.demand.Path == AsPool && len(unit) != 1 {
		have = r.next.Classes()
	} else {
		for _, i := range unit {
			if c := r.next.Containers[i].Cache; len(c) > 0 {
				have = append(have, c)
			}
		}
	}
	if len(have) == 0 {
		return nil
	}
	wants := make([]cache.Want, len(have))
	for k, c := range have {
		wants[k] = wantOf(c)
	}
	return r.caches.Extend(wants, have)
}

// nearClasses returns those of the CPUs whose caches have shares of the classes of the containers,
// or room for them (R-CACHE-30).
func (r *resizing) nearClasses(unit []int, cpus cpuset.Set) cpuset.Set {
	if l := r.growth(unit); l != nil {
		return cpus.Intersection(l.CPUs())
	}
	return cpus
}

// nearAllClasses is nearClasses for all classes of the pod, and that of its pool.
func (r *resizing) nearAllClasses(cpus cpuset.Set) cpuset.Set { return r.nearClasses(nil, cpus) }

// cacheHints returns a hint set for each resource of the caches, from hints, which returns that of
// CPUs. free are the CPUs that the containers can have.
func (r *resizing) cacheHints(unit []int, free cpuset.Set, hints func(cpuset.Set) hint.Set) []hint.Set {
	l := r.growth(unit)
	if l == nil {
		return nil
	}
	return cacheHints(l, func(near cpuset.Set) hint.Set { return hints(free.Intersection(near)) })
}

// placed returns the shares that the classes of a pod that is aligned as one would have of the
// caches to which they come, in the order of the containers, that of the pool last. They are placed
// at once, before the first of them grows, so that the largest is placed first (R-CACHE-15). It
// returns nil for other pods.
func (r *resizing) placed() *cache.Layout {
	if r.demand.Path != AsOne && r.demand.Path != AsPool {
		return nil
	}
	if r.places == nil {
		n := len(r.next.Containers)
		wants, have := make([]cache.Want, n+1), make([]cache.Class, n+1)
		for i := range r.next.Containers {
			have[i] = r.next.Containers[i].Cache
		}
		have[n] = r.next.PoolCache
		for k, c := range have {
			wants[k] = wantOf(c)
		}
		r.places = r.caches.Extend(wants, have)
	}
	return r.places
}

// nearOwn is nearClasses for the class of container i, also in caches in which all classes of the
// pod have room.
func (r *resizing) nearOwn(i int, cpus cpuset.Set) cpuset.Set {
	near := r.nearClasses([]int{i}, cpus)
	if l := r.placed(); l != nil && len(r.next.Containers[i].Cache) > 0 {
		near = near.Union(cpus.Intersection(l.CPUs()))
	}
	return near
}

// updateClass takes from container i, which has fewer CPUs than before, the shares of the caches
// that its CPUs do not use any more.
func (r *resizing) updateClass(i int) {
	c := &r.next.Containers[i]
	if class, ok := r.update(c.Cache, c.CPUs, nil, 0); ok {
		c.Cache = class
	}
}

// growClass gives container i the shares of the caches that its CPUs use now. It returns false, and
// changes nothing, if one of the caches has no room.
func (r *resizing) growClass(i int) bool {
	c := &r.next.Containers[i]
	if len(c.Cache) == 0 {
		return true
	}
	class, ok := r.update(c.Cache, c.CPUs, r.placed(), i)
	if ok {
		c.Cache = class
	}
	return ok
}

// update returns the class for other CPUs. In caches in which all classes of the pod have room, its
// place is that of class k in all, which may be nil.
func (r *resizing) update(class cache.Class, cpus cpuset.Set, all *cache.Layout, k int) (cache.Class, bool) {
	if len(class) == 0 {
		return class, true
	}
	online := cpus.Intersection(r.s.machine.AllCPUs())
	l := r.caches.Extend([]cache.Want{wantOf(class)}, []cache.Class{class})
	fits, next := l.CPUs(), l.Class(0, online)
	if all != nil {
		fits, next = fits.Union(all.CPUs()), all.Class(k, online).Over(next)
	}
	if !fits.Contains(online) {
		return class, false
	}
	if !cpus.Equal(online) { // It is not known which caches the offline CPUs have: they keep their shares until the CPUs are back.
		next = next.Over(class)
	}
	usage, err := r.caches.Return(class).Take(next)
	switch {
	case err != nil && all != nil: // Another class has its place there, because it came to a cache without room for all.
		return r.update(class, cpus, nil, 0)
	case err != nil:
		return class, false
	}
	r.caches = usage
	return next, true
}

// updatePoolClass is updateClass for the containers that share the pool.
func (r *resizing) updatePoolClass() *rejection.Rejection {
	if len(r.next.PoolCache) == 0 {
		return nil
	}
	class, ok := r.update(r.next.PoolCache, r.next.sharedCPUs(), r.placed(), len(r.next.Containers))
	if !ok {
		return r.rejectClass(together, false)
	}
	r.next.PoolCache = class
	return nil
}

// rejectClass rejects a container or, if i is together, a pool that would come to caches that have
// no room for its class.
func (r *resizing) rejectClass(i int, stay bool) *rejection.Rejection {
	if stay {
		return elsewhere
	}
	who, class := "the containers that share the pool", r.next.PoolCache
	if i != together {
		who, class = "container "+r.nameOf(i), r.next.Containers[i].Cache
	}
	return r.rejectRoom(i, wantOf(class), r.caches.Extend([]cache.Want{wantOf(class)}, []cache.Class{class}),
		fmt.Sprintf("%s would get CPUs of other L3 caches, which have no room for %s", who, wantOf(class).Words()))
}

// rejectNear rejects a container or, if i is together, a pool that would have n CPUs, if enough
// CPUs are free and some of their caches have no room. It returns nil otherwise.
func (r *resizing) rejectNear(i, n int) *rejection.Rejection {
	unit, has, free, want := []int(nil), r.next.Pool, r.free(), r.demand.Together.Cache
	if i != together {
		unit, has, free, want = []int{i}, r.next.Containers[i].CPUs, r.freeFor(i), r.demand.Containers[i].Cache
	}
	l := r.growth(unit)
	if l == nil || l.CPUs().Contains(free) || free.Difference(has).Len() < n-has.Len() {
		return nil
	}
	return r.rejectRoom(i, want, l, "too few of the free CPUs have an L3 cache with room for "+want.Words())
}

// rejectRoom rejects classes for which caches have no room.
func (r *resizing) rejectRoom(i int, want cache.Want, l *cache.Layout, detail string) *rejection.Rejection {
	rejected := &rejection.Rejection{Container: r.nameOf(i), Resource: scarceOf(l)}
	rejected.Wanted, rejected.Nodes = want.Amount(rejected.Resource), r.s.account(rejected.Resource, &r.draft)
	rejected.Detail = detail + r.cachesText(rejected.Resource)
	return r.reject(rejection.NoCache, rejected)
}
