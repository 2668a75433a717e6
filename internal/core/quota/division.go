package quota

import (
	"cmp"
	"slices"
	"sort"
)

// division divides the phases of one rule among a growing number of sidecars. See levels.
type division struct {
	parts []part // of all sidecars
	n     int    // how many of them take part
	sum   tally
	// low and high order the parts as their lower bounds begin to count while the level falls, and
	// as their upper bounds do while it rises. firm is high without the parts that can be at a
	// lower bound.
	low, high, firm order
}

// tally is a sum over parts. bound is the sum of either their lower or their upper bounds.
type tally struct {
	count               int
	bound, base, weight Quota
}

func (t tally) plus(u tally) tally {
	return tally{t.count + u.count, t.bound + u.bound, t.base + u.base, t.weight + u.weight}
}

func (t tally) minus(u tally) tally {
	return tally{t.count - u.count, t.bound - u.bound, t.base - u.base, t.weight - u.weight}
}

// tallied returns the sum over one part at a bound.
func (p *part) tallied(bound Quota) tally { return tally{1, bound, p.base, p.weight} }

func newDivision(r rule, sidecars []part) *division {
	d := &division{parts: slices.Clone(sidecars)}
	lows, highs := make([]level, len(sidecars)), make([]level, len(sidecars))
	for i := range d.parts {
		p := &d.parts[i]
		p.weigh(r)
		lows[i], highs[i] = level{p.least - p.base, p.weight}, level{p.most - p.base + 1, p.weight}
	}
	d.low, d.high = newOrder(lows, true), newOrder(highs, false)
	d.firm = order{d.high.thresholds, d.high.ranks, make([]tally, len(sidecars)+1), false}
	return d
}

// extend makes the first n sidecars take part.
func (d *division) extend(n int) {
	for ; d.n < n; d.n++ {
		p := &d.parts[d.n]
		d.sum = d.sum.plus(p.tallied(0))
		d.low.add(d.n, p.tallied(p.least))
		d.high.add(d.n, p.tallied(p.most))
		if p.least <= p.base {
			d.firm.add(d.n, p.tallied(p.most))
		}
	}
}

// divide runs the turns of a division of rest among the parts and own. own may be nil.
func (d *division) divide(rest Quota, own *part) end {
	var e end
	reached := bounds{top: level{0, 1}}
	sum := d.sum
	if own != nil {
		sum = sum.plus(own.tallied(0))
	}
	for {
		done := d.ended(reached)
		if own != nil && own.done {
			done = done.plus(own.tallied(own.quota))
		}
		open := sum.minus(done)
		if open.weight == 0 {
			break
		}
		now := level{rest - done.bound - open.base, open.weight}
		e.last = now
		next, surplus := d.turn(reached, now, own)
		if surplus == 0 {
			if own != nil && !own.done {
				own.quota, own.done = own.at(now), true
			}
			break
		}
		if surplus > 0 {
			e.lower = e.lower.lower(now)
		}
		reached = next
	}
	e.lower = e.lower.lower(e.last)
	return e
}

// bounds describe which parts are done: those whose lower bounds count at the level bottom, and
// those whose upper bounds count at the level top.
type bounds struct{ bottom, top level }

// ended returns the sum over the sidecars that are done.
func (d *division) ended(b bounds) tally {
	return d.low.sum(b.bottom).plus(d.highs(b).sum(b.top))
}

// highs returns the parts that an upper bound can end. Once lower bounds have ended some parts,
// these are only the parts that cannot be among them.
func (d *division) highs(b bounds) *order {
	if b.bottom.weights != 0 {
		return &d.firm
	}
	return &d.high
}

// turn ends parts at their bounds at a level: at the lower bounds if the surplus is positive, at
// the upper bounds if it is negative, and none if it is 0.
func (d *division) turn(b bounds, now level, own *part) (next bounds, surplus Quota) {
	falls, rises := bounds{b.bottom.lower(now), b.top}, b
	if b.top.less(now) {
		rises.top = now
	}
	highs := d.highs(b)
	low, high := d.low.sum(falls.bottom).minus(d.low.sum(b.bottom)), highs.sum(rises.top).minus(highs.sum(b.top))
	var ownLow, ownHigh bool
	if own != nil && !own.done {
		fair := own.fair(now)
		ownLow, ownHigh = fair < own.least, fair > own.most
	}
	switch {
	case ownLow:
		low = low.plus(own.tallied(own.least))
	case ownHigh:
		high = high.plus(own.tallied(own.most))
	}
	surplus = Quota(cmp.Compare(low.count, high.count))
	if low.count > 0 && high.count > 0 { // All weights are 1.
		each := now.times(1)
		surplus = low.bound - low.base - low.weight*each - (high.base + high.weight*each - high.bound)
	}
	switch {
	case surplus == 0:
		return b, 0
	case surplus < 0 && ownHigh, surplus > 0 && ownLow:
		own.quota, own.done = own.at(now), true
	}
	if surplus < 0 {
		return rises, surplus
	}
	return falls, surplus
}

// order sorts parts by threshold, and has sums over the first few of those that take part (a
// Fenwick tree).
type order struct {
	thresholds []level
	ranks      []int // of the parts
	sums       []tally
	falling    bool
}

// newOrder orders parts by threshold. If falling, bounds count below the thresholds, and the
// highest threshold comes first.
func newOrder(thresholds []level, falling bool) order {
	parts := make([]int, len(thresholds))
	for i := range parts {
		parts[i] = i
	}
	slices.SortFunc(parts, func(a, b int) int {
		switch x, y := thresholds[a], thresholds[b]; {
		case x.less(y) == y.less(x):
			return cmp.Compare(a, b)
		case x.less(y) == falling:
			return 1
		}
		return -1
	})
	o := order{make([]level, len(parts)), make([]int, len(parts)), make([]tally, len(parts)+1), falling}
	for rank, i := range parts {
		o.thresholds[rank], o.ranks[i] = thresholds[i], rank
	}
	return o
}

// add makes part i take part.
func (o *order) add(i int, t tally) {
	for k := o.ranks[i] + 1; k < len(o.sums); k += k & -k {
		o.sums[k] = o.sums[k].plus(t)
	}
}

// sum returns the sum over the parts whose bounds count at a level. In a falling order, the level
// is below their thresholds. Otherwise it is at or above them.
func (o *order) sum(at level) (t tally) {
	k := sort.Search(len(o.thresholds), func(k int) bool {
		return at.less(o.thresholds[k]) != o.falling
	})
	for ; k > 0; k -= k & -k {
		t = t.plus(o.sums[k])
	}
	return t
}
