package explain

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Caches describes how the L3 caches and the memory bandwidth of a node are divided among classes.
type Caches struct {
	// Classes is how many classes can exist beside the default class, which everything else uses.
	// UsedClasses is how many exist.
	Classes     int           `json:"classes"`
	UsedClasses int           `json:"usedClasses"`
	L3          []CacheReport `json:"l3"`

	// Kept are the ways of each cache that the default class always has.
	Kept cache.Ways `json:"-"`
}

// CacheReport describes one L3 cache. Amounts of memory bandwidth are in percent. They are absent
// if the machine cannot divide it.
type CacheReport struct {
	ID        int    `json:"id"`
	CPUs      string `json:"cpus"`
	NUMANodes []int  `json:"numaNodes"`
	// Ways is the number of ways of the cache. ClassWays is how many of them classes can have,
	// FreeWays how many of these no class has, and LargestClass how many one more class can have,
	// because its ways are contiguous.
	Ways         int `json:"ways"`
	ClassWays    int `json:"classWays"`
	FreeWays     int `json:"freeWays"`
	LargestClass int `json:"largestClass"`
	// DefaultWays are the ways of the default class, and HardwareWays those that hardware uses
	// beside the CPUs, such as for I/O. Both are lists.
	DefaultWays  string `json:"defaultWays,omitempty"`
	HardwareWays string `json:"hardwareWays,omitempty"`
	// Bandwidth is how much of the memory bandwidth classes can have together, FreeBandwidth what
	// no class has, and DefaultBandwidth the limit of the default class.
	Bandwidth        int `json:"bandwidthPercent,omitempty"`
	FreeBandwidth    int `json:"freeBandwidthPercent,omitempty"`
	DefaultBandwidth int `json:"defaultBandwidthPercent,omitempty"`
	// Owners are the classes with a share of the cache, in the order of the pods' UIDs.
	Owners []CacheOwner `json:"owners,omitempty"`
}

// CacheOwner is a class: that of a container, or that of the containers that share the pool of a
// pod.
type CacheOwner struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Container is empty for the class of a pool.
	Container string `json:"container,omitempty"`
	Ways      string `json:"ways,omitempty"`
	Bandwidth int    `json:"bandwidthPercent,omitempty"`
	// Moving is set for a share that the pod has because it is being moved there.
	Moving bool `json:"moving,omitempty"`

	// Set has the ways, and Index is the position of the container in its pod, or -1.
	Set   cache.Ways `json:"-"`
	Index int        `json:"-"`
}

// CachesOf returns how the caches of a node are divided. It is nil if the policy does not divide
// them, and no pod has a class from before (R-CACHE-32).
func CachesOf(s *node.State) *Caches {
	usage, rules := s.Caches(), s.Machine().Caches()
	used, most := usage.Classes()
	if !usage.Divides() || !s.Policy().CPU.DividesCaches && used == 0 {
		return nil
	}
	out := &Caches{Classes: most, UsedClasses: used, Kept: usage.Kept()}
	rest := usage.Rest()
	for i, unit := range s.Machine().L3s() {
		r := CacheReport{
			ID: unit.ID, CPUs: unit.CPUs.String(), NUMANodes: s.Machine().NodesOf(unit.CPUs).Nodes(), Ways: rules.Ways,
			DefaultBandwidth: rest[i].Bandwidth,
		}
		if rest[i].Ways != 0 {
			r.DefaultWays = rest[i].Ways.String()
		}
		if rules.HardwareWays != 0 {
			r.HardwareWays = cache.Ways(rules.HardwareWays).String()
		}
		r.LargestClass, r.ClassWays = usage.FreeWays(i)
		r.FreeBandwidth, r.Bandwidth = usage.FreeBandwidth(i)
		r.FreeWays = r.ClassWays
		for g := range s.AllGrants() {
			for _, o := range ownersIn(unit.ID, g) {
				r.FreeWays -= o.Set.Len()
				r.Owners = append(r.Owners, o)
			}
		}
		out.L3 = append(out.L3, r)
	}
	return out
}

// cacheOf returns what a container or, if it has no name, the pod asks of the caches.
func cacheOf(p *node.Plan, container string) cache.Want {
	if _, i := p.Pod.Container(container); i >= 0 && i < len(p.Trace.Demand.Containers) {
		return p.Trace.Demand.Containers[i].Cache
	}
	return p.Trace.Demand.Together.Cache
}

// resourceName returns the name of a resource in sentences.
func resourceName(resource request.Resource) string {
	switch resource {
	case request.L3:
		return "L3"
	case request.Bandwidth:
		return "memory bandwidth"
	}
	return resource
}

// cacheAmounts returns what is asked of the caches.
func cacheAmounts(w cache.Want) []Amount {
	var out []Amount
	for _, r := range []request.Resource{request.L3, request.Bandwidth} {
		if n := w.Amount(r); n > 0 {
			out = append(out, Amount{r, n})
		}
	}
	return out
}

// WithoutClass returns a sentence for each container, and for each pool, that asks for a part of
// the caches and has none: it was admitted before the option was on, or its part was given up
// (R-CACHE-32). It returns nothing if the policy does not divide the caches.
func WithoutClass(s *node.State) []string {
	if !s.Policy().CPU.DividesCaches {
		return nil
	}
	var lines []string
	add := func(g *node.Grant, who string, asked request.Cache) {
		lines = append(lines, fmt.Sprintf("%s (uid %s): %s asks for %s of the caches and is in the default class; delete the pod when that is acceptable, so that it is created again", g.Pod.ID(), g.Pod.UID, who, asked))
	}
	for g := range s.AllGrants() {
		for i := range g.Containers {
			asks, has := &g.Pod.Containers[i], &g.Containers[i]
			if !asks.Cache.IsZero() && len(has.Cache) == 0 && !has.Removed && g.Isolation(i) == node.ContainerIsolation {
				add(g, "container "+asks.Name, asks.Cache)
			}
		}
		if !g.Pod.PoolCache.IsZero() && len(g.PoolCache) == 0 && !g.Pool.IsEmpty() {
			add(g, "its pool", g.Pod.PoolCache)
		}
	}
	return lines
}

// asksForCaches reports whether a pod asks for a part of the caches.
func asksForCaches(pod *request.Pod) bool {
	return !pod.PoolCache.IsZero() || slices.ContainsFunc(pod.Containers, func(c request.Container) bool { return !c.Cache.IsZero() })
}

// ownersIn returns the classes of a pod that have a share of a cache. If the pod is being moved, a
// class can be listed twice, with the ways of each place that the other one does not have.
func ownersIn(id int, g *node.Grant) []CacheOwner {
	var out []CacheOwner
	add := func(container string, index int, now, then cache.Class) {
		has, there := now.Share(id)
		if there {
			out = append(out, owner(g, container, index, has))
		}
		if to, also := then.Share(id); also {
			to.Ways &^= has.Ways
			to.Bandwidth = max(0, to.Bandwidth-has.Bandwidth)
			if !there || to.Ways != 0 || to.Bandwidth > 0 {
				moving := owner(g, container, index, to)
				moving.Moving = true
				out = append(out, moving)
			}
		}
	}
	for i := range g.Containers {
		var to cache.Class
		if g.Moving != nil {
			to = g.Moving.Containers[i].Cache
		}
		add(g.Pod.Containers[i].Name, i, g.Containers[i].Cache, to)
	}
	var to cache.Class
	if g.Moving != nil {
		to = g.Moving.PoolCache
	}
	add("", -1, g.PoolCache, to)
	return out
}

// Who names the class.
func (o *CacheOwner) Who() string {
	if o.Container == "" {
		return "the pool of " + o.Pod
	}
	return "container " + o.Container + " of " + o.Pod
}

func owner(g *node.Grant, container string, index int, s cache.Share) CacheOwner {
	o := CacheOwner{Pod: g.Pod.ID(), UID: g.Pod.UID, Container: container, Bandwidth: s.Bandwidth, Set: s.Ways, Index: index}
	if s.Ways != 0 {
		o.Ways = s.Ways.String()
	}
	return o
}
