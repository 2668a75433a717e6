package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// asksForCaches reports whether a pod asks for a part of the caches.
func asksForCaches(pod *request.Pod) bool {
	return !pod.PoolCache.IsZero() || pod.CacheUnclear != "" ||
		slices.ContainsFunc(pod.Containers, func(c request.Container) bool { return !c.Cache.IsZero() })
}

// askCaches adds what the containers ask of the caches (R-CACHE-3). What is not possible is not
// added: checkCaches rejects it.
func (d *Demand) askCaches(s *State, pod *request.Pod) {
	if !asksForCaches(pod) {
		return
	}
	add := func(w cache.Want) {
		d.Together.Cache.Ways += w.Ways
		d.Together.Cache.Bandwidth += w.Bandwidth
	}
	for i := range pod.Containers {
		c, asks := &pod.Containers[i], &d.Containers[i]
		if !c.Cache.IsZero() && asks.CPUs > 0 && c.Type != request.Init {
			asks.Cache, _ = cache.Resolve(c.Cache, s.machine)
			add(asks.Cache)
		}
	}
	if !pod.PoolCache.IsZero() && d.Path == AsPool && d.Together.CPUs > 0 {
		d.PoolCache, _ = cache.Resolve(pod.PoolCache, s.machine)
		add(d.PoolCache)
	}
	if d.Path == ByContainer || d.Path == Unaligned { // Nothing is aligned together.
		d.Together.Cache = cache.Want{}
	}
}

// checkCaches rejects a pod that asks for a part of the caches that it cannot have on any day
// (R-CACHE-4). Without the option it adds a note.
func (d *draft) checkCaches() *rejection.Rejection {
	if !asksForCaches(&d.pod) {
		return nil
	}
	if !d.s.policy.CPU.DividesCaches {
		d.note("the pod asks for a part of the caches (annotations " + request.CacheAnnotationPrefix +
			"…), and this node does not divide them: CPU manager option cache-allocation is off")
		return nil
	}
	reject := func(container string, ask request.Cache, detail string) *rejection.Rejection {
		r := &rejection.Rejection{Container: container, Resource: request.L3, Wanted: int64(ask.Ways), Detail: detail}
		if ask.Ways == 0 && ask.Percent == 0 && ask.Bandwidth > 0 {
			r.Resource, r.Wanted = request.Bandwidth, int64(ask.Bandwidth)
		}
		return d.reject(rejection.CacheUnclear, r)
	}
	if d.pod.CacheUnclear != "" {
		return reject("", request.Cache{}, d.pod.CacheUnclear)
	}
	for i := range d.pod.Containers {
		c := &d.pod.Containers[i]
		if c.Cache.IsZero() {
			continue
		}
		asks := &d.demand.Containers[i]
		if asks.CPUs == 0 {
			return reject(c.Name, c.Cache, fmt.Sprintf("it asks for %s and has no exclusive CPUs, because %s: only a container with CPUs of its own can have a part of their caches", c.Cache, asks.WhyCPUs().Text))
		}
		if c.Type == request.Init {
			return reject(c.Name, c.Cache, fmt.Sprintf("it asks for %s and is an init container, which ends before the others start: let the containers ask that run beside others", c.Cache))
		}
		if _, err := cache.Resolve(c.Cache, d.s.machine); err != nil {
			return reject(c.Name, c.Cache, "it asks for "+err.Error())
		}
	}
	if ask := d.pod.PoolCache; !ask.IsZero() {
		if d.demand.Path != AsPool || d.demand.Together.CPUs == 0 {
			return reject("", ask, fmt.Sprintf("annotation %s is %s, and the pod has no pool of CPUs on this node: a pod has one if it is Guaranteed with pod-level resources and a whole number of CPUs, under scope pod", request.SharedPoolCacheAnnotation, ask))
		}
		if !slices.ContainsFunc(d.pod.Containers, func(c request.Container) bool { return c.Type != request.Init && !c.Exclusive() }) {
			return reject("", ask, fmt.Sprintf("annotation %s is %s, and no container shares the pod's pool", request.SharedPoolCacheAnnotation, ask))
		}
		if _, err := cache.Resolve(ask, d.s.machine); err != nil {
			return reject("", ask, "annotation "+request.SharedPoolCacheAnnotation+" asks for "+err.Error())
		}
	}
	return nil
}

// classes returns the places that the classes of container i would have or, for a pod that is
// aligned as one, those of all its classes (R-CACHE-12). It returns nil if nothing is asked for.
func (d *draft) classes(i int) *cache.Layout {
	if d.demand.Path == AsOne || d.demand.Path == AsPool {
		if d.layout == nil && !d.demand.Together.Cache.IsZero() {
			wants := make([]cache.Want, len(d.demand.Containers)+1)
			for k := range d.demand.Containers {
				wants[k] = d.demand.Containers[k].Cache
			}
			wants[len(wants)-1] = d.demand.PoolCache
			d.layout = d.caches.Layout(wants)
		}
		return d.layout
	}
	if i == together || d.demand.Containers[i].Cache.IsZero() {
		return nil
	}
	return d.caches.Layout([]cache.Want{d.demand.Containers[i].Cache})
}

// nearCaches returns those of the CPUs whose caches have room for the classes of container i or,
// for a pod that is aligned as one, of the pod (R-CACHE-12). A place that was handed over is
// checked when its class is taken.
func (d *draft) nearCaches(i int, cpus cpuset.Set) cpuset.Set {
	if !d.s.policy.CPU.DividesCaches || d.way == handed {
		return cpus
	}
	if l := d.classes(i); l != nil {
		return cpus.Intersection(l.CPUs())
	}
	return cpus
}

// appendCacheHints appends a hint set for each resource of the caches: the NUMA nodes with enough
// CPUs whose caches have room for the classes (R-CACHE-11). The set of the bandwidth requires the
// ways as well, so that both hold in the same caches.
func (d *draft) appendCacheHints(hintSets []hint.Set, n, of int) []hint.Set {
	l := d.classes(of)
	if l == nil || d.way == handed {
		return hintSets
	}
	return append(hintSets, cacheHints(l, func(near cpuset.Set) hint.Set { return d.cpuHintsWithin(n, of, near) })...)
}

// cacheHints returns a hint set for each resource that classes ask for. within returns the hint set
// of the CPUs that the pod needs, among CPUs whose caches have room.
func cacheHints(l *cache.Layout, within func(near cpuset.Set) hint.Set) []hint.Set {
	var sets []hint.Set
	for _, resource := range l.Resources() {
		near := l.CPUs()
		if resource == request.L3 {
			near = l.WithWays()
		}
		set := within(near)
		set.Resource = resource
		sets = append(sets, set)
	}
	return sets
}

// cpuHintsWithin is cpuHints for some of the CPUs.
func (d *draft) cpuHintsWithin(n, of int, cpus cpuset.Set) hint.Set {
	if parts, is := d.parts(of); is {
		return cpu.HintsApart(d.s.machine, d.s.policy.CPU, d.free().Intersection(cpus), cpuset.Set{}, parts)
	}
	return cpu.Hints(d.s.machine, d.s.policy.CPU, d.available().Intersection(cpus), d.reusableCPUs.Intersection(cpus), n)
}

// takeClass takes the class of container i, which has these CPUs.
func (d *draft) takeClass(i int, cpus cpuset.Set) *rejection.Rejection {
	want := d.demand.Containers[i].Cache
	if want.IsZero() {
		return nil
	}
	var has cache.Class
	if d.way == handed {
		has = d.grant.Containers[i].Cache
	}
	class, rejection := d.class(i, want, cpus, has)
	d.containers[i].Cache = class
	return rejection
}

// takePoolClass takes the class of the containers that share the pool.
func (d *draft) takePoolClass(v *Division) *rejection.Rejection {
	if d.demand.PoolCache.IsZero() {
		return nil
	}
	var shared cpuset.Builder
	for i, piece := range v.Pieces {
		if piece.Part != layout.Slice {
			shared.AddSet(d.containers[i].CPUs)
		}
	}
	var has cache.Class
	if d.way == handed {
		has = d.grant.PoolCache
	}
	class, rejection := d.class(together, d.demand.PoolCache, shared.Set(), has)
	d.poolCache = class
	return rejection
}

// class takes a class for CPUs: the one that was handed over, or one that the planner places.
func (d *draft) class(i int, want cache.Want, cpus cpuset.Set, handedOver cache.Class) (cache.Class, *rejection.Rejection) {
	class := handedOver
	if d.way == handed {
		if rejection := d.checkHandedClass(i, want, cpus, class); rejection != nil {
			return nil, rejection
		}
	} else {
		k := i
		switch {
		case d.layout == nil:
			k = 0 // classes made a layout of this container alone.
		case i == together:
			k = len(d.demand.Containers)
		}
		class = d.classes(i).Class(k, cpus)
	}
	usage, err := d.caches.Take(class)
	if err != nil {
		if d.way == handed {
			return nil, d.misplaced(MisplacedCaches, "%s has %s: %s", d.whoHas(i), class, err)
		}
		return nil, d.rejectCache(i)
	}
	d.caches = usage
	return class, nil
}

// checkHandedClass compares a class that was handed over with what the container asks for: exactly
// the caches of its CPUs, and in each as much as it asks for.
func (d *draft) checkHandedClass(i int, want cache.Want, cpus cpuset.Set, class cache.Class) *rejection.Rejection {
	used := 0
	for _, unit := range d.s.machine.L3s() {
		if !unit.CPUs.Intersects(cpus) {
			continue
		}
		used++
		s, has := class.Share(unit.ID)
		if !has || s.Ways.Len() != want.Ways || !s.Ways.Contiguous() || s.Bandwidth != want.Bandwidth {
			return d.misplaced(MisplacedCaches, "%s has %s, and asks for %s of L3 %d", d.whoHas(i), class, want.Words(), unit.ID)
		}
	}
	if used != len(class) {
		return d.misplaced(MisplacedCaches, "%s has %s, and CPUs %s", d.whoHas(i), class, cpus)
	}
	return nil
}

func (d *draft) whoHas(i int) string {
	if i == together {
		return "the pool"
	}
	return "container " + d.nameOf(i)
}

// rejectCache rejects a container or, if i is together, a pool, for which too few caches have room.
func (d *draft) rejectCache(i int) *rejection.Rejection {
	r := &rejection.Rejection{Container: d.nameOf(i)}
	return d.cacheRejection(rejection.NoCache, i, r, d.wantedWithCache(i)+" wanted, and too few of the free CPUs have caches with room")
}

// rejectCacheAlignment rejects a container or, if the name is empty, a pod that cannot be aligned
// because of its caches. f is the hint set without a preferred mask.
func (d *draft) rejectCacheAlignment(container string, f hint.Set) *rejection.Rejection {
	_, i := d.pod.Container(container)
	size := max(1, f.Preferred)
	if d.s.policy.Topology == TopologySingleNUMANode {
		size = 1
	}
	nodes := ", but no single NUMA node has that much free"
	switch {
	case f.Kind == hint.None:
		nodes = ", and too few of the free CPUs have caches with room"
	case size > 1:
		nodes = fmt.Sprintf(", but no %s together have that much free", mask.Count(size))
	}
	r := &rejection.Rejection{Container: container, Resource: f.Resource}
	return d.cacheRejection(rejection.NotAligned, i, r, d.wantedWithCache(i)+" wanted"+nodes)
}

// cacheRejection completes the rejection of a container or pod for which the caches have no room.
func (d *draft) cacheRejection(cause rejection.Cause, i int, r *rejection.Rejection, what string) *rejection.Rejection {
	var l *cache.Layout
	ask := d.askOf(i)
	if d.way != staying { // A pod that is resized has its classes already.
		l = d.classes(i)
	}
	if r.Resource == "" && l != nil {
		r.Resource = scarceOf(l)
	}
	r.Wanted, r.Detail = ask.Amount(r.Resource), what
	r.Nodes = d.account(r.Resource)
	if used, most := d.caches.Classes(); l != nil && l.Short() {
		r.Detail = fmt.Sprintf("%s wanted, which takes %d of the %d classes of the processor, and %d are in use%s", d.askOf(i).Cache.Words(), l.Classes(), most, used, d.classHolders())
		return d.reject(rejection.NoCache, r)
	}
	r.Detail += d.cachesText(r.Resource)
	return d.reject(cause, r)
}

func (d *draft) askOf(i int) *Ask {
	if i < 0 || d.demand.Path == AsOne || d.demand.Path == AsPool {
		return &d.demand.Together
	}
	return &d.demand.Containers[i].Ask
}

// wantedWithCache returns what is wanted of CPUs and of their caches.
func (d *draft) wantedWithCache(i int) string {
	ask := d.askOf(i)
	return request.Words(request.CPU, int64(ask.CPUs)) + " with " + ask.Cache.Words()
}

// scarceOf returns the resource of which caches have too little: the bandwidth only if some have
// enough ways.
func scarceOf(l *cache.Layout) request.Resource {
	if l.WithWays().Len() > l.CPUs().Len() {
		return request.Bandwidth
	}
	return l.Resources()[0]
}

// cachesText lists, for the first NUMA nodes, how many CPUs are free, and what is free of the cache
// with the most.
func (d *draft) cachesText(resource request.Resource) string {
	accounts := d.account(resource)
	texts := make([]string, 0, fewNodes)
	for _, a := range accounts[:min(fewNodes, len(accounts))] {
		free := int64(d.available().IntersectionLen(d.s.machine.CPUsOf(mask.Of(a.Node))))
		most := fmt.Sprintf("%d of %d ways in a row", a.Free, a.Total)
		if resource == request.Bandwidth {
			most = fmt.Sprintf("%d%% of %d%% of the bandwidth", a.Free, a.Total)
		}
		texts = append(texts, fmt.Sprintf("%s and at most %s on NUMA node %d", request.Words(request.CPU, free), most, a.Node))
	}
	if more := len(accounts) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("others on %d more NUMA nodes", more))
	}
	return "; free are " + strings.Join(texts, ", ")
}

// classHolders returns " by POD, POD" for the pods that have classes.
func (d *draft) classHolders() string {
	var names []string
	if own := (&Grant{PoolCache: d.poolCache, Containers: d.containers}).Classes(); len(own) > 0 {
		names = append(names, fmt.Sprintf("this pod (%d)", len(own)))
	}
	for g := range d.s.AllGrants() {
		if n := len(g.Classes()); n == 1 {
			names = append(names, g.Pod.ID())
		} else if n > 1 {
			names = append(names, fmt.Sprintf("%s (%d)", g.Pod.ID(), n))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " by " + fewOf(names, ", ")
}

// Caches returns which parts of the caches classes have.
func (s *State) Caches() cache.Usage { return s.caches }
