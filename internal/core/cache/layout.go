package cache

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Layout has the places that classes would have in each cache, if their CPUs used it.
type Layout struct {
	u     *usage
	wants []Want
	// ways has the ways of each want, by the position of the cache in the machine's L3s. It is
	// nil for a cache in which the wants do not fit. fitsWays is set where only the bandwidth is
	// short.
	ways     [][]Ways
	fitsWays []bool
	// short is set if there are too few classes.
	short bool
}

// Layout plans places for classes that do not exist yet. Wants that are zero get no class.
func (u Usage) Layout(wants []Want) *Layout { return u.Extend(wants, nil) }

// Extend plans places for classes of which some may exist: they keep their shares, and get more of
// them where their CPUs come to other caches. have is parallel to wants, or nil.
func (u Usage) Extend(wants []Want, have []Class) *Layout {
	if u.of == nil {
		return &Layout{wants: wants, short: true}
	}
	l := &Layout{u: u.of, wants: wants, ways: make([][]Ways, len(u.of.taken)), fitsWays: make([]bool, len(u.of.taken))}
	more := 0
	order := make([]int, 0, len(wants))
	for k, w := range wants {
		if !w.IsZero() {
			order = append(order, k)
			if k >= len(have) || len(have[k]) == 0 {
				more++
			}
		}
	}
	if used, most := u.Classes(); used+more > most {
		l.short = true
		return l
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(wants[b].Ways, wants[a].Ways) })
	for i := range l.ways {
		l.place(i, order, have)
	}
	return l
}

// place plans the places in one cache.
func (l *Layout) place(i int, order []int, have []Class) {
	rules, t := l.u.m.Caches(), l.u.taken[i]
	free, ways := allWays(rules)&^core(rules)&^t.ways, make([]Ways, len(l.wants))
	bandwidth := t.bandwidth
	for _, k := range order {
		if k < len(have) {
			if s, has := have[k].Share(l.u.m.L3s()[i].ID); has {
				ways[k] = s.Ways
				continue
			}
		}
		bandwidth += l.wants[k].Bandwidth
		n := l.wants[k].Ways
		if n == 0 {
			continue
		}
		run := bestRun(rules, free, n)
		if run == 0 {
			return
		}
		ways[k], free = run, free&^run
	}
	l.fitsWays[i] = true
	if bandwidth <= 100-rules.LeastBandwidth || bandwidth == t.bandwidth {
		l.ways[i] = ways
	}
}

// bestRun returns n ways of the smallest free run that has as many. The run next to the ways that
// the default class keeps comes last.
func bestRun(rules machine.Caches, free Ways, n int) Ways {
	rest := (free | core(rules)).runWith(core(rules)) // the default class, if nothing else were placed
	best, size := Ways(0), 0
	for first, length := range free.runs {
		run := Run(first, length)
		if length < n {
			continue
		}
		if run&rest != 0 {
			length += rules.Ways // the last choice
		}
		if best != 0 && length >= size {
			continue
		}
		size = length
		if best = Run(first, n); run&rest != 0 && core(rules) < run { // above it: leave the lowest ways to the default class
			best = Run(first+run.Len()-n, n)
		}
	}
	return best
}

// Short reports whether there are too few classes.
func (l *Layout) Short() bool { return l.short }

// Classes returns the number of classes that the wants have, existing ones included.
func (l *Layout) Classes() int {
	n := 0
	for _, w := range l.wants {
		if !w.IsZero() {
			n++
		}
	}
	return n
}

// CPUs returns the CPUs of the caches in which all classes have room.
func (l *Layout) CPUs() cpuset.Set { return l.cpus(func(i int) bool { return l.ways[i] != nil }) }

// WithWays returns the CPUs of the caches in which all classes have enough ways.
func (l *Layout) WithWays() cpuset.Set { return l.cpus(func(i int) bool { return l.fitsWays[i] }) }

func (l *Layout) cpus(fits func(int) bool) cpuset.Set {
	var b cpuset.Builder
	for i := range l.ways {
		if fits(i) {
			b.AddSet(l.u.m.L3s()[i].CPUs)
		}
	}
	return b.Set()
}

// Class returns the class of want k on CPUs, all of which must be among CPUs.
func (l *Layout) Class(k int, cpus cpuset.Set) Class {
	if l.wants[k].IsZero() {
		return nil
	}
	var c Class
	for i := range l.ways {
		if cache := l.u.m.L3s()[i]; l.ways[i] != nil && cache.CPUs.Intersects(cpus) {
			c = append(c, Share{Cache: cache.ID, Ways: l.ways[i][k], Bandwidth: l.wants[k].Bandwidth})
		}
	}
	return c
}

// Resources returns the resources that the wants have, the ways first.
func (l *Layout) Resources() []request.Resource {
	var all []request.Resource
	for _, r := range []request.Resource{request.L3, request.Bandwidth} {
		if slices.ContainsFunc(l.wants, func(w Want) bool { return w.Amount(r) > 0 }) {
			all = append(all, r)
		}
	}
	return all
}
