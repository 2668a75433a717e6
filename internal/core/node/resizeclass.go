package node

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// wantOf returns what a class that exists has of each cache. A resize changes which caches a class
// has shares of, and never how much.
func wantOf(c cache.Class) cache.Want {
	if len(c) == 0 {
		return cache.Want{}
	}
	return cache.Want{Ways: c[0].Ways.Len(), Bandwidth: c[0].Bandwidth}
}

// nearClasses returns those of the CPUs whose caches have shares of the classes of the containers,
// or room for them (R-CACHE-30).
func (r *resizing) nearClasses(unit []int, cpus cpuset.Set) cpuset.Set {
	var wants []cache.Want
	var have []cache.Class
	for _, i := range unit {
		if c := r.next.Containers[i].Cache; len(c) > 0 {
			wants, have = append(wants, wantOf(c)), append(have, c)
		}
	}
	if len(wants) == 0 {
		return cpus
	}
	return cpus.Intersection(r.caches.Extend(wants, have).CPUs())
}

// nearAllClasses is nearClasses for all classes of the pod, and that of its pool.
func (r *resizing) nearAllClasses(cpus cpuset.Set) cpuset.Set {
	var wants []cache.Want
	var have []cache.Class
	for _, c := range r.next.Classes() {
		wants, have = append(wants, wantOf(c)), append(have, c)
	}
	if len(wants) == 0 {
		return cpus
	}
	return cpus.Intersection(r.caches.Extend(wants, have).CPUs())
}

// updateClass gives container i the shares of the caches that its CPUs use now. It returns false,
// and changes nothing, if one of them has no room.
func (r *resizing) updateClass(i int) bool {
	c := &r.next.Containers[i]
	class, ok := r.update(c.Cache, c.CPUs)
	if ok {
		c.Cache = class
	}
	return ok
}

func (r *resizing) update(class cache.Class, cpus cpuset.Set) (cache.Class, bool) {
	if len(class) == 0 {
		return class, true
	}
	online := cpus.Intersection(r.s.machine.AllCPUs())
	l := r.caches.Extend([]cache.Want{wantOf(class)}, []cache.Class{class})
	if !l.CPUs().Contains(online) {
		return class, false
	}
	next := l.Class(0, online)
	for _, s := range class { // A cache whose CPUs are offline keeps its share until they are back.
		if !r.s.hasCache(s.Cache) && !cpus.Equal(online) {
			next = next.Over(cache.Class{s})
		}
	}
	usage, err := r.caches.Return(class).Take(next)
	if err != nil {
		return class, false
	}
	r.caches = usage
	return next, true
}

// hasCache reports whether the machine has a cache with an online CPU of that id.
func (s *State) hasCache(id int) bool {
	for _, u := range s.machine.Uncores() {
		if u.ID == id {
			return true
		}
	}
	return false
}

// updatePoolClass is updateClass for the containers that share the pool.
func (r *resizing) updatePoolClass() *rejection.Rejection {
	var shared cpuset.Builder
	for i := range r.next.Containers {
		if r.next.Isolation(i) == PodIsolation {
			shared.AddSet(r.next.Containers[i].CPUs)
		}
	}
	class, ok := r.update(r.next.PoolCache, shared.Set())
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
	rejected := &rejection.Rejection{Container: r.nameOf(i), Resource: request.L3, Wanted: int64(wantOf(class).Ways), Detail: fmt.Sprintf(
		"%s would get CPUs of other L3 caches, which have no room for %s", who, wantOf(class).Words())}
	if wantOf(class).Ways == 0 {
		rejected.Resource, rejected.Wanted = request.Bandwidth, int64(wantOf(class).Bandwidth)
	}
	rejected.Nodes = r.s.account(rejected.Resource, &r.draft)
	return r.reject(rejection.NoCache, rejected)
}
