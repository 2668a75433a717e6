package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Mix is a set of nodes of several kinds.
type Mix struct {
	// Counts has the number of nodes of each kind. Price is their total price.
	Counts []int
	Price  float64
	// LowerBound is a price below which the sums of the pods' requests cannot fit, whatever the
	// placement is.
	LowerBound float64
	// Tried is the number of mixes that were tried.
	Tried  int
	Result *Result
}

// ErrPrice is returned by SizeMix for a kind whose price is not a positive number.
var ErrPrice = errors.New("every kind needs a price above 0")

// SizeMix looks for a cheap mix of kinds with at most most nodes that takes all pods. It is a
// heuristic. It begins with the mix of fractions of nodes that is cheapest by the sums of the
// requests, and increases all counts by the same factor until the pods fit. It also begins with
// every kind alone. Then it removes as many nodes as possible, starting with the most expensive
// kind, until the pods do not fit with one node fewer of any kind. Then it replaces nodes of one
// kind with fewer or cheaper nodes of another while that makes the mix cheaper. The cheapest mix is
// the answer. Pods that no kind takes are left out, as by Size, and the error wraps ErrNever.
// Without others, the mix is nil. If ctx ends, the mix is the cheapest so far, or nil.
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
	demands, err := demandsOf(kinds, items, o)
	if err != nil {
		return nil, err
	}
	has := make([][resources]float64, len(kinds))
	for i, k := range kinds {
		free := k.Allocatable
		free.Milli, free.Memory, free.Pods = max(0, free.Milli-k.Used.Milli), max(0, free.Memory-k.Used.Memory), max(0, free.Pods-k.Used.Pods)
		has[i] = amounts(free)
	}
	bound, parts := cheapest(prices, has, demands)
	m := &mixing{ctx: ctx, kinds: kinds, prices: prices, items: items, most: most, options: o}
	starts := [][]float64{parts}
	for k := range kinds {
		if alone := make([]float64, len(kinds)); takesAll(demands, k) {
			alone[k] = max(1, float64(LowerBound(kinds[k], items)))
			starts = append(starts, alone)
		}
	}
	best := &Mix{Price: math.Inf(1)}
	for _, start := range starts {
		var found *Mix
		if found, err = m.from(start); found != nil && found.Price < best.Price {
			best = found
		}
		if err != nil {
			break
		}
	}
	switch {
	case best.Result == nil && err != nil:
		return nil, err
	case best.Result == nil:
		return nil, fmt.Errorf("%d nodes: %w", most, ErrTooFew)
	}
	best.LowerBound, best.Tried = max(bound*(1-1e-9), slices.Min(prices)), m.tried // Rounded down, because it must not exceed the true bound.
	best.Result.leaveOut(left)
	return best, errors.Join(left.never(), err)
}

func takesAll(demands []demand, kind int) bool {
	return !slices.ContainsFunc(demands, func(d demand) bool { return !d.takes[kind] })
}

// demandsOf sums the requests of pods that the same kinds take on a node without pods. Some kind
// takes each of the pods.
func demandsOf(kinds []Kind, items []Item, o Options) ([]demand, error) {
	runs := make([]*run, len(kinds))
	var err error
	o.Rules = nil // Rules depend on many nodes and the pods on them.
	for i, k := range kinds {
		k.Count = 1
		if runs[i], err = begin([]Kind{k}, items, o); err != nil {
			return nil, err
		}
	}
	sums := map[string]int{}
	var out []demand
	for _, item := range items {
		d := demand{takes: make([]bool, len(kinds))}
		for i, r := range runs {
			if _, d.takes[i], _, err = r.Fleet.Best(item.Pod); err != nil {
				return nil, err
			}
		}
		key := fmt.Sprint(d.takes)
		at, known := sums[key]
		if !known {
			at = len(out)
			sums[key], out = at, append(out, d)
		}
		for r, x := range least(&item.Pod) {
			out[at].asks[r] += x * float64(item.Count)
		}
	}
	return out, nil
}

// mixing is the state of one search for a mix.
type mixing struct {
	ctx     context.Context //nolint:containedctx // A search is one call.
	kinds   []Kind
	prices  []float64
	items   []Item
	most    int
	options Options
	tried   int
	pods    int64 // pods placed or rejected in all trials
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

// from finds a mix that starts with fractions of nodes. It returns nil if there is none with at
// most most nodes. With an error, it returns the mix so far, or nil.
func (m *mixing) from(parts []float64) (*Mix, error) {
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
	var result *Result
	for ; ; low, high = high, high*1.5 {
		if total(grown(high)) > m.most {
			return nil, nil
		}
		var err error
		if result, err = m.try(grown(high)); err != nil {
			return nil, err
		}
		if result != nil {
			break
		}
	}
	for !slices.Equal(grown(low), grown(high)) && high-low > 0.01*high {
		middle := (low + high) / 2
		r, err := m.try(grown(middle))
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			low = middle
		default:
			high, result = middle, r
		}
	}
	mix := &Mix{Counts: grown(high), Result: result}
	err := m.reduce(mix)
	for err == nil {
		var better *Mix
		if better, err = m.exchange(mix.Counts); better == nil {
			break
		}
		mix, err = better, m.reduce(better)
	}
	mix.Price = m.price(mix.Counts)
	return mix, err
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
			if k == last {
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
				}
			}
		}
		if last < 0 {
			return nil
		}
	}
}
