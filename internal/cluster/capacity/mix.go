package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/packing"
)

// Mix is a set of nodes of several kinds.
type Mix struct {
	// Counts has the number of nodes of each kind. Price is their total price.
	Counts []int
	Price  float64
	// LowerBound is a price below which the pods do not fit, whatever the placement is.
	LowerBound float64
	// Tried is the number of mixes that were tried.
	Tried  int
	Result *Result
}

// ErrPrice is returned by SizeMix for a kind whose price is not a positive number.
var ErrPrice = errors.New("every kind needs a price above 0")

// SizeMix looks for a cheap mix of kinds with at most most nodes that takes all pods. It is a
// heuristic. It begins with the mix of fractions of nodes that is cheapest by package packing, or
// by the sums of the requests, and increases all counts by the same factor until the pods fit. It
// also begins with every kind alone. Then it removes as many nodes as possible, starting with the
// most expensive kind, until the pods do not fit with one node fewer of any kind. Then it replaces
// nodes of one kind with fewer or cheaper nodes of another while that makes the mix cheaper. The
// cheapest mix is the answer. Pods that no kind takes are left out, as by Fewest, and the error
// wraps ErrNever. Without others, the mix is nil. If ctx ends, or if o.Enough returns true, the mix
// is the cheapest so far, or nil.
func SizeMix(ctx context.Context, kinds []Kind, prices []float64, items []Item, most int, o Options) (*Mix, error) {
	if items = nonempty(items); len(items) == 0 {
		return nil, ErrNoPods
	}
	for _, p := range prices {
		if !(p > 0) || math.IsInf(p, 0) {
			return nil, ErrPrice
		}
	}
	items, left, err := apart(kinds, items, o)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, left.never()
	}
	takes, err := takesOf(kinds, items, o)
	if err != nil {
		return nil, err
	}
	bound, starts, err := startsOf(ctx, kinds, prices, items, takes)
	if err != nil {
		return nil, err
	}
	if o.ranking == nil {
		o.ranking = pricedRanking(kinds, prices, items, o.Scoring)
	}
	m := &mixing{ctx: ctx, kinds: kinds, prices: prices, items: items, most: most, options: o, bound: bound, best: &Mix{Price: math.Inf(1)}}
	for _, start := range starts {
		if err = m.from(start); err != nil || m.ended() {
			break
		}
	}
	best := m.best
	switch {
	case best.Result == nil && err != nil:
		return nil, err
	case best.Result == nil:
		return nil, fmt.Errorf("%d nodes: %w", most, ErrTooFew)
	}
	best.LowerBound, best.Tried = bound, m.tried
	best.Result.Unfinished = m.stopped
	best.Result.leaveOut(left)
	return best, errors.Join(left.never(), err)
}

// startsOf returns a price that no mix is below, and the mixes of fractions of nodes to begin with:
// the cheapest one by package packing or, if that has a higher bound, by the sums of the requests,
// and then every kind alone that takes all pods.
func startsOf(ctx context.Context, kinds []Kind, prices []float64, items []Item, takes [][]bool) (bound float64, starts [][]float64, err error) {
	demands := demandsOf(items, takes)
	has := make([][resources]float64, len(kinds))
	for i, k := range kinds {
		free := k.Allocatable
		free.Milli, free.Memory, free.Pods = max(0, free.Milli-k.Used.Milli), max(0, free.Memory-k.Used.Memory), max(0, free.Pods-k.Used.Pods)
		has[i] = amounts(free)
	}
	bound, parts := cheapest(prices, has, demands)
	p, err := relaxed(kinds, prices, items, func(k, i int) bool { return takes[i][k] })
	if err != nil {
		return 0, nil, err
	}
	bound *= 1 - 1e-9 // Rounded down, because it must not exceed the true bound.
	if r := packing.Bound(p.nodes, p.items, packing.Budget, func() bool { return ctx.Err() != nil }); r.Price > bound {
		bound, parts = r.Price, r.Mix
	}
	starts = append(starts, parts)
	for k := range kinds {
		if alone := make([]float64, len(kinds)); takesAll(demands, k) {
			alone[k] = max(1, float64(sumsBound(kinds[k], items)))
			starts = append(starts, alone)
		}
	}
	return max(bound, slices.Min(prices)), starts, nil
}

func takesAll(demands []demand, kind int) bool {
	return !slices.ContainsFunc(demands, func(d demand) bool { return !d.takes[kind] })
}

// takesOf returns for each item which kinds take a pod of it on a node without pods.
func takesOf(kinds []Kind, items []Item, o Options) ([][]bool, error) {
	takes := make([][]bool, len(items))
	o.Rules, o.Scoring = nil, fleet.MostAllocated // Rules depend on many nodes and the pods on them.
	for _, k := range kinds {
		k.Count = 1
		r, err := begin([]Kind{k}, items, o)
		if err != nil {
			return nil, err
		}
		for i := range items {
			_, found, _, err := r.Fleet.Best(items[i].Pod)
			if err != nil {
				return nil, err
			}
			takes[i] = append(takes[i], found)
		}
	}
	return takes, nil
}

// demandsOf sums the requests of pods that the same kinds take.
func demandsOf(items []Item, takes [][]bool) (out []demand) {
	for i, item := range items {
		at := slices.IndexFunc(out, func(d demand) bool { return slices.Equal(d.takes, takes[i]) })
		if at < 0 {
			at, out = len(out), append(out, demand{takes: takes[i]})
		}
		for r, x := range least(&item.Pod) {
			out[at].asks[r] += x * float64(item.Count)
		}
	}
	return out
}

// mixing is the state of one search for a mix.
type mixing struct {
	ctx     context.Context //nolint:containedctx // A search is one call.
	kinds   []Kind
	prices  []float64
	items   []Item
	most    int
	options Options
	bound   float64
	best    *Mix // the price is infinite if there is none
	tried   int
	pods    int64 // pods placed or rejected in all trials
	// stopped is set if o.Enough ended the search.
	stopped bool
}

// ended reports whether the search need not go on: no mix is cheaper, or the time is over.
func (m *mixing) ended() bool {
	if m.best.Result == nil {
		return false
	}
	if m.best.Price <= m.bound*(1+1e-9) {
		return true
	}
	m.stopped = m.stopped || m.options.Enough != nil && m.options.Enough()
	return m.stopped
}

// keep notes a mix that takes all pods.
func (m *mixing) keep(mix *Mix) {
	if mix.Price = m.price(mix.Counts); mix.Price >= m.best.Price {
		return
	}
	better := *mix
	if m.best = &better; m.options.Cheaper != nil {
		m.options.Cheaper(mix.Price, m.bound)
	}
}

// try places the pods. It returns nil if not all of them fit.
func (m *mixing) try(counts []int) (*Result, error) {
	var kinds []Kind
	for i, k := range m.kinds {
		if k.Count = counts[i]; k.Count > 0 {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	m.tried++
	o := m.options
	o.hasty = true
	r, err := Fit(m.ctx, kinds, m.items, o)
	if err != nil {
		return nil, err
	}
	if m.pods += r.Asked; r.Rejected > 0 {
		return nil, nil
	}
	return r, nil
}

// from looks for a mix that starts with fractions of nodes, and keeps the mixes that are better
// than those before.
func (m *mixing) from(parts []float64) error {
	grown := func(factor float64) []int {
		counts := make([]int, len(parts))
		for i, x := range parts {
			counts[i] = int(math.Ceil(min(x*factor-1e-9, float64(m.most)+1)))
			counts[i] = max(0, counts[i])
		}
		return counts
	}
	total := func(counts []int) (n int) {
		for _, c := range counts {
			n += c
		}
		return n
	}
	low, high := 1.0, 1.0
	mix := &Mix{}
	for step := 0.01; ; step *= 2 {
		if total(grown(high)) > m.most {
			return nil
		}
		r, err := m.try(grown(high))
		if err != nil {
			return err
		}
		if r != nil {
			mix.Counts, mix.Result = grown(high), r
			break
		}
		low, high = high, high+step
	}
	m.keep(mix)
	for !slices.Equal(grown(low), grown(high)) && high-low > 0.01*high && !m.ended() {
		middle := (low + high) / 2
		r, err := m.try(grown(middle))
		switch {
		case err != nil:
			return err
		case r == nil:
			low = middle
		default:
			high, mix.Counts, mix.Result = middle, grown(middle), r
			m.keep(mix)
		}
	}
	for err := m.reduce(mix); !m.ended(); err = m.reduce(mix) {
		if err != nil {
			return err
		}
		better, err := m.exchange(mix.Counts)
		if err != nil || better == nil {
			return err
		}
		mix = better
		m.keep(mix)
	}
	return nil
}

func (m *mixing) price(counts []int) (sum float64) {
	for i, n := range counts {
		sum += float64(n) * m.prices[i]
	}
	return sum
}

// After maxTried placements, or after maxPods pods in all of them, the search stops replacing
// nodes. Some dozens of placements usually find what there is to find, and a pod takes about 50 µs.
const (
	maxTried = 200
	maxPods  = 400_000
)

// exchange looks for a cheaper mix in which some nodes of one kind are replaced with nodes of
// another: as many as cost less than the removed ones. It returns nil if there is none.
func (m *mixing) exchange(counts []int) (*Mix, error) {
	for from := range counts {
		for part := 1; part <= counts[from]; part *= 2 {
			gone := (counts[from] + part - 1) / part
			for to := range counts {
				more := int(math.Ceil(float64(gone)*m.prices[from]/m.prices[to]*(1-1e-9))) - 1
				next := slices.Clone(counts)
				next[from] -= gone
				next[to] += more
				if to == from || more <= 0 || next[to] > m.most || m.price(next) >= m.price(counts) || m.tried >= maxTried || m.pods >= maxPods {
					continue
				}
				r, err := m.try(next)
				if err != nil {
					return nil, err
				}
				if r != nil {
					return &Mix{Counts: next, Result: r}, nil
				}
			}
		}
	}
	return nil, nil
}

// reduce removes nodes until the pods do not fit with one node fewer of any kind.
func (m *mixing) reduce(mix *Mix) error {
	order := make([]int, len(m.kinds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.prices[b], m.prices[a]) })
	for last := -1; ; { // The kind that was reduced last. When it comes again, all others were tried after it.
		for _, k := range order {
			if k == last || m.ended() {
				return nil
			}
			fails, enough := -1, mix.Counts[k]
			for step := 1; enough-fails > 1; step *= 2 { // Remove one node, two, four. Most often one is too many.
				counts := slices.Clone(mix.Counts)
				counts[k] = max(fails+1, enough-step)
				if fails >= 0 || counts[k] <= fails {
					counts[k] = fails + (enough-fails)/2
				}
				r, err := m.try(counts)
				switch {
				case err != nil:
					return err
				case r == nil:
					fails = counts[k]
				default:
					enough, mix.Counts, mix.Result, last = counts[k], counts, r, k
					m.keep(mix)
				}
			}
		}
		if last < 0 {
			return nil
		}
	}
}
