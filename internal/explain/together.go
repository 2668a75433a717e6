package explain

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Together is a set of resources that are missing together, on places where nothing else keeps the
// pod away.
type Together struct {
	// Least has how much is missing at the nearest of these places, whose index is At.
	Least []Amount
	At    int
	// Places counts the places that lack all these resources, whatever else they lack.
	Places int
}

// Together returns the smallest sets of resources that are missing together, in the order of their
// places. It returns nil if a resource alone is missing on some place, or no amount is. The nearest
// place is the one where the missing shares of what is wanted have the lowest sum.
func (m *Missing) Together() []Together {
	var sets []Together
	for i := range m.Places {
		p := &m.Places[i]
		if _, alone := p.Alone(); alone || len(p.Missing) == 0 {
			return nil
		}
		if p.Barred || slices.ContainsFunc(sets, func(t Together) bool { return lacksMore(p.Missing, t.Least) }) {
			continue
		}
		set := Together{Least: p.Missing, At: i}
		sets = slices.DeleteFunc(sets, func(t Together) bool {
			return lacksMore(t.Least, set.Least) || lacksAll(t.Least, set.Least) && m.share(set.Least) < m.share(t.Least)
		})
		if !slices.ContainsFunc(sets, func(t Together) bool { return lacksAll(set.Least, t.Least) }) {
			sets = append(sets, set)
		}
	}
	for i := range sets {
		for k := range m.Places {
			if lacksAll(m.Places[k].Missing, sets[i].Least) {
				sets[i].Places++
			}
		}
	}
	return sets
}

// lacksAll reports whether all resources of few are among many.
func lacksAll(many, few []Amount) bool {
	return !slices.ContainsFunc(few, func(a Amount) bool {
		return !slices.ContainsFunc(many, func(b Amount) bool { return a.Resource == b.Resource })
	})
}

// lacksMore reports whether many has all resources of few and others.
func lacksMore(many, few []Amount) bool { return len(many) > len(few) && lacksAll(many, few) }

// share returns the sum of the shares of what is wanted that are missing. Parts of the caches do
// not count, because what is missing of them is a number of CPUs.
func (m *Missing) share(missing []Amount) float64 {
	sum := 0.0
	for _, a := range missing {
		at := slices.IndexFunc(m.Wanted, func(w Amount) bool { return w.Resource == a.Resource })
		if at >= 0 && !request.IsCache(a.Resource) {
			sum += float64(a.Value) / float64(m.Wanted[at].Value)
		}
	}
	return sum
}

// FreeMemory has how much memory of a type is free on each NUMA node that has some for pods.
type FreeMemory struct {
	Resource string            `json:"resource"`
	Places   []FreeMemoryPlace `json:"places"`
}

// FreeMemoryPlace is a NUMA node: how many bytes it has for pods, and how many of them are free.
type FreeMemoryPlace struct {
	NUMANode int   `json:"numaNode"`
	Total    int64 `json:"total"`
	Free     int64 `json:"free"`
}

// FreeMemoryOf returns what is free of the types of memory that are missing together with other
// resources, except for the resource of the rejection, which has an account of its own. m may be
// nil.
func FreeMemoryOf(s *node.State, p *node.Plan, m *Missing) []FreeMemory {
	if p.Rejection == nil || m == nil {
		return nil
	}
	var out []FreeMemory
	for _, set := range m.Together() {
		for _, a := range set.Least {
			t := s.Machine().MemoryType(a.Resource)
			known := slices.ContainsFunc(out, func(f FreeMemory) bool { return f.Resource == a.Resource })
			if known || t < 0 || a.Resource == p.Rejection.Resource {
				continue
			}
			free := FreeMemory{Resource: a.Resource}
			nodes := s.Memory().Capacity().Nodes()
			for i, used := range s.Memory().Nodes() {
				if total := nodes[i].Types[t].Allocatable; total > 0 {
					free.Places = append(free.Places, FreeMemoryPlace{nodes[i].ID, total, used.Free[t]})
				}
			}
			out = append(out, free)
		}
	}
	return out
}
