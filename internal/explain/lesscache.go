package explain

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/request"
)

const maxCachePlans = 200

// caches looks for the largest part of the caches, below the one that the pod asks for, with which
// it is admitted: of one resource of one container at a time, the rejected container first. It
// proposes one change of each resource. If none helps, it tries the pod without any part of the
// caches.
func (x *search) caches() ([]Proposal, string) {
	asks := x.cacheAsks()
	if !x.state.Policy().CPU.DividesCaches || len(asks) == 0 {
		return nil, ""
	}
	x.what, x.limit = "a smaller part of the caches", x.allowed(maxCachePlans)
	found := map[string]Proposal{}
	for _, c := range asks {
		_, has := found[c.Resource]
		for c.To = c.From - 1; c.To >= 0 && !has; c.To-- {
			found[c.Resource], has = x.withCaches([]Change{c})
		}
		if !has {
			delete(found, c.Resource)
		}
	}
	if len(found) > 0 {
		var all []Proposal
		for _, resource := range x.cacheResources() {
			if p, has := found[resource]; has {
				all = append(all, p)
			}
		}
		return all, fmt.Sprintf("%d would admit it", len(all))
	}
	for i := range asks {
		asks[i].To = 0
	}
	if len(asks) > 1 {
		if p, ok := x.withCaches(asks); ok {
			return []Proposal{p}, "only without any part of the caches"
		}
	}
	if x.cut {
		return nil, "none found; " + notFurther
	}
	return nil, "none admits it, however small"
}

// cacheResources returns the resources of the caches. The one that was short comes first.
func (x *search) cacheResources() []string {
	if x.rejection.Resource == request.Bandwidth {
		return []string{request.Bandwidth, request.L3}
	}
	return []string{request.L3, request.Bandwidth}
}

// cacheAsks returns what the pod asks of the caches, without new amounts: that of the rejected
// container first, that of the pool last.
func (x *search) cacheAsks() []Change {
	var first, rest []Change
	add := func(container string, asked request.Cache, to *[]Change) {
		want, err := cache.Resolve(asked, x.state.Machine())
		if err != nil { // The machine does not have it at all.
			want = cache.Want{Ways: max(asked.Ways, min(1, asked.Percent)), Bandwidth: asked.Bandwidth}
		}
		for _, a := range cacheAmounts(want) {
			*to = append(*to, Change{Container: container, Resource: a.Resource, From: a.Value})
		}
	}
	for i := range x.pod.Containers {
		c := &x.pod.Containers[i]
		if c.Name == x.rejection.Container {
			add(c.Name, c.Cache, &first)
		} else {
			add(c.Name, c.Cache, &rest)
		}
	}
	add("", x.pod.PoolCache, &rest)
	return append(first, rest...)
}

// withCaches plans the pod with other parts of the caches.
func (x *search) withCaches(changes []Change) (Proposal, bool) {
	p := x.plan(x.state, applied(x.pod, changes))
	if p == nil {
		return Proposal{}, false
	}
	parts := make([]string, len(changes))
	for i, c := range changes {
		where := " in container " + c.Container
		if c.Container == "" {
			where = " for the pod's pool"
		}
		unit, none := "", "no ways of L3"
		if c.Resource == request.Bandwidth {
			unit, none = "%", "no part of the memory bandwidth"
		}
		if parts[i] = fmt.Sprintf("%s instead of %d%s%s", Amount{c.Resource, c.To}.Text(), c.From, unit, where); c.To == 0 {
			parts[i] = none + where
		}
	}
	return Proposal{Kind: Amounts, Changes: changes, Text: "ask for " + strings.Join(parts, ", and for "), Outcome: outcome(x.state, p)}, true
}

// setCache returns what is asked of the caches with the new amount.
func (c Change) setCache(asked request.Cache) request.Cache {
	if c.Resource == request.Bandwidth {
		asked.Bandwidth = int(c.To)
	} else {
		asked.Ways, asked.Percent = int(c.To), 0
	}
	return asked
}
