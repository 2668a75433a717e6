package node

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Classes returns the classes that the pod has: those of its containers, then that of its pool.
// While the pod is being moved, each has what both places have.
func (g *Grant) Classes() []cache.Class {
	var all []cache.Class
	add := func(c, place cache.Class) {
		if len(place) > 0 {
			c = c.With(place)
		}
		if len(c) > 0 {
			all = append(all, c)
		}
	}
	var place ContainerGrant
	for i := range g.Containers {
		if g.Moving != nil {
			place = g.Moving.Containers[i]
		}
		add(g.Containers[i].Cache, place.Cache)
	}
	if g.Moving != nil {
		add(g.PoolCache, g.Moving.PoolCache)
	} else {
		add(g.PoolCache, nil)
	}
	return all
}

// ClassOf returns the class in which container i runs, and whether it is that of its pod's pool. It
// is empty for the default class. While the pod is being moved, the container has what its present
// place has, and what the other place has of other caches.
func (g *Grant) ClassOf(i int) (class cache.Class, pool bool) {
	if own := g.Containers[i].Cache; len(own) > 0 {
		if g.Moving != nil {
			own = own.Over(g.Moving.Containers[i].Cache)
		}
		return own, false
	}
	if len(g.PoolCache) == 0 || g.Isolation(i) != PodIsolation {
		return nil, false
	}
	if g.Moving != nil {
		return g.PoolCache.Over(g.Moving.PoolCache), true
	}
	return g.PoolCache, true
}

// sharedCPUs returns the CPUs of the containers that share the pod's pool.
func (g *Grant) sharedCPUs() cpuset.Set {
	var b cpuset.Builder
	for i := range g.Containers {
		if g.Isolation(i) == PodIsolation {
			b.AddSet(g.Containers[i].CPUs)
		}
	}
	return b.Set()
}

// withoutClasses returns the grant of a pod whose containers are all in the default class.
func (g *Grant) withoutClasses() *Grant {
	return g.eachPlace(func(g *Grant) {
		g.PoolCache, g.Containers = nil, slices.Clone(g.Containers)
		for i := range g.Containers {
			g.Containers[i].Cache = nil
		}
	})
}

// fitClasses returns the grant of a running pod with classes for the caches of the machine as it is
// now: without shares of caches that the pod does not use, which a resize kept for CPUs that were
// offline. The error means that a class is not possible. A pod with CPUs that are offline keeps its
// classes as they are, because it is not known which caches those CPUs have.
func (s *State) fitClasses(g *Grant) (*Grant, error) {
	if len(g.Containers) != len(g.Pod.Containers) || len(g.Classes()) == 0 {
		return g, nil
	}
	if s.caches.Divides() && s.OfflineOf(g).IsEmpty() {
		var wrong error
		next := g.eachPlace(func(at *Grant) {
			if err := s.fitPlace(at, &g.Pod); wrong == nil {
				wrong = err
			}
		})
		if wrong != nil {
			return nil, wrong
		}
		if !slices.EqualFunc(g.Classes(), next.Classes(), cache.Class.Equal) {
			g = next
		}
	}
	_, err := takeClasses(s.caches, g)
	return g, err
}

// fitPlace is fitClasses for one of the places of a pod that is being moved.
func (s *State) fitPlace(g *Grant, pod *request.Pod) error {
	var wrong error
	fit := func(who string, c cache.Class, cpus cpuset.Set) cache.Class {
		if missing := s.caches.Missing(c, cpus); len(c) > 0 && len(missing) > 0 && wrong == nil {
			wrong = fmt.Errorf("%s has CPUs %s, of the L3 caches %v too, and it has %s", who, cpus, missing, c)
		}
		used := s.caches.Within(c, cpus)
		if len(c) > 0 && len(used) == 0 && wrong == nil {
			wrong = fmt.Errorf("%s has %s, and no CPU of these caches", who, c)
		}
		return used
	}
	g.Pod, g.Containers = *pod, slices.Clone(g.Containers)
	removed := false
	for i := range g.Containers {
		c := &g.Containers[i]
		c.Cache = fit("container "+pod.Containers[i].Name, c.Cache, c.CPUs)
		removed = removed || c.Removed
	}
	if fitted := fit("its pool", g.PoolCache, g.sharedCPUs()); !removed { // A class does not shrink with its containers.
		g.PoolCache = fitted
	}
	return wrong
}

// takeClasses takes the classes of a grant.
func takeClasses(u cache.Usage, g *Grant) (cache.Usage, error) {
	if !u.Divides() {
		return u, nil
	}
	for _, c := range g.Classes() {
		var err error
		if u, err = u.Take(c); err != nil {
			return u, err
		}
	}
	return u, nil
}

func returnClasses(u cache.Usage, g *Grant) cache.Usage {
	if !u.Divides() {
		return u
	}
	for _, c := range g.Classes() {
		u = u.Return(c)
	}
	return u
}

// exchangeClasses returns the usage after a pod has the classes of g and not those of old. They
// must be free.
func exchangeClasses(u cache.Usage, old, g *Grant) cache.Usage {
	u = returnClasses(u, old)
	if taken, err := takeClasses(u, g); err == nil {
		return taken
	}
	return u
}

// checkClasses proves that the classes of a grant are possible: only a container with its own CPUs
// has one, and only a pool that containers share.
func checkClasses(g *Grant) error {
	check := func(who string, c cache.Class) error {
		for k, s := range c {
			if k > 0 && c[k-1].Cache >= s.Cache || s.Cache < 0 || !s.Ways.Contiguous() || s.Bandwidth < 0 || s.Bandwidth > 100 || s.Ways == 0 && s.Bandwidth == 0 {
				return broken("%s has %s of the caches, which is no class", who, c)
			}
		}
		return nil
	}
	for i := range g.Containers {
		c := g.Containers[i].Cache
		if len(c) == 0 {
			continue
		}
		who := "container " + g.Pod.Containers[i].Name
		if g.Isolation(i) != ContainerIsolation {
			return broken("%s has %s of the caches, and no CPUs of its own", who, c)
		}
		if err := check(who, c); err != nil {
			return err
		}
	}
	if len(g.PoolCache) > 0 && (g.Pool.IsEmpty() || g.sharedCPUs().IsEmpty()) {
		return broken("its pool has %s of the caches, and no container shares it", g.PoolCache)
	}
	return check("its pool", g.PoolCache)
}
