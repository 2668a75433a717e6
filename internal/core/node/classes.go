package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
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

// sharesPool reports whether a container shares the pod's pool.
func (g *Grant) sharesPool() bool {
	for i := range g.Containers {
		if g.Isolation(i) == PodIsolation {
			return true
		}
	}
	return false
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
	if len(g.PoolCache) > 0 && (g.Pool.IsEmpty() || !g.sharesPool()) {
		return broken("its pool has %s of the caches, and no container shares it", g.PoolCache)
	}
	return check("its pool", g.PoolCache)
}
