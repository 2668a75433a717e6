package node

import (
	"math/bits"
	"slices"
)

// level is what one unit of weight gets in a division: left/weights. A negative left is nothing;
// weights of 0 are no level, above all others.
type level struct{ left, weights Quota }

// less reports whether l is a lower level.
func (l level) less(m level) bool {
	lh, ll := bits.Mul64(uint64(max(l.left, 0)), uint64(m.weights))
	mh, ml := bits.Mul64(uint64(max(m.left, 0)), uint64(l.weights))
	switch {
	case l.weights == 0:
		return false
	case m.weights == 0:
		return true
	}
	return lh < mh || lh == mh && ll < ml
}

// lower is the lower one.
func (l level) lower(m level) level {
	if m.less(l) {
		return m
	}
	return l
}

// times is left·weight/weights, rounded down, or unbounded where that is less.
func (l level) times(weight Quota) Quota {
	high, low := bits.Mul64(uint64(max(l.left, 0)), uint64(weight))
	if high >= uint64(l.weights) {
		return unbounded
	}
	quotient, _ := bits.Div64(high, low, uint64(l.weights))
	return Quota(min(quotient, unbounded))
}

// levels divides the phases of init containers: each among the first few sidecars of the pod and
// the init container. A phase costs the logarithm of their number, for each turn of its division.
//
// It takes the same turns as divide, whose state follows from two levels: the one up to which parts
// are done at their lower bound, and the one up to which they are at their upper bound.
//
//   - At a level l the lower bound counts of the parts with l < (least-base)/weight, and the upper
//     bound of those with l >= (most-base+1)/weight. In the order of these thresholds both are the
//     first few parts, and sums over them are all that a turn needs.
//   - Ending parts at their lower bounds lowers the level of the others, at their upper bounds
//     raises it. So while only one kind of bound counts, parts that are done would be at their
//     bound at every later level too.
//   - Where weights are limits, only one kind counts in a phase: at a level of at most 1 what is
//     fair is at most the limit, above it at least the limit, and so at least the request. The
//     level never crosses 1.
//   - Where weights are requests, too. If they fit, a level below 1 ends every part at its request
//     at once, and any other only rises. If they do not fit, the level is below 1 and only falls,
//     and what is fair is at most the request, and so at most the limit.
//   - In equal parts both can count. The only lower bound is LeastQuota, of the parts without a
//     base, at a level below LeastQuota: of all of them or of none. Before they end there, upper
//     bounds only raised the level. Ending them takes less than the last turn of upper bounds left
//     beyond what they need, so the level does not fall below one at which an upper bound ended a
//     part. Rounding can raise it above LeastQuota afterwards; these parts stay there.
//
// What a part gets is then part.at of the last level, or, if it can be at its lower bound, of the
// lowest of the last level and those that ended parts there. Both grow with the level, whatever the
// phase. So of the phases of a sidecar that have the same rule only the lowest levels count.
// TestQuotasOneByOne compares the result with that of dividing every phase as a list.
type levels struct {
	sidecars  []part
	sums      []phase // of the first sidecars
	divisions map[rule]*division
	ends      []end
}

// end is how the division of a phase ended: its rule, how many sidecars it has, and the levels of
// the parts that can be at their lower bound, and of the others.
type end struct {
	rule        rule
	sidecars    int
	lower, last level
}

func newLevels(sidecars []part) *levels {
	l := &levels{sidecars: sidecars, sums: make([]phase, 1, len(sidecars)+1), divisions: map[rule]*division{}}
	for i := range sidecars {
		l.sums = append(l.sums, l.sums[i].with(&sidecars[i]))
	}
	return l
}

// phase divides rest among the first n sidecars and own, the init container, nil if it does not
// share. own gets its quota. Phases are divided in the order of n.
func (l *levels) phase(rest Quota, n int, own *part) {
	h := l.sums[n]
	if own != nil {
		h = h.with(own)
	}
	rest = max(rest, 0)
	r := h.rule(rest)
	if own != nil {
		own.weigh(r)
	}
	d := l.divisions[r]
	if d == nil {
		d = newDivision(r, l.sidecars)
		l.divisions[r] = d
	}
	d.extend(n)
	e := d.divide(rest, own)
	if e.rule, e.sidecars = r, n; n > 0 {
		l.ends = append(l.ends, e)
	}
}

// least passes on the least share of each sidecar in all phases; a sidecar without a phase is left
// out.
func (l *levels) least(share func(sidecar int, q Quota)) {
	var lowest []end // one for each rule
	k := len(l.ends)
	for i := len(l.sidecars) - 1; i >= 0; i-- {
		for ; k > 0 && l.ends[k-1].sidecars > i; k-- {
			e := l.ends[k-1]
			at := slices.IndexFunc(lowest, func(other end) bool { return other.rule == e.rule })
			if at < 0 {
				lowest = append(lowest, e)
				continue
			}
			lowest[at].lower, lowest[at].last = lowest[at].lower.lower(e.lower), lowest[at].last.lower(e.last)
		}
		for _, e := range lowest {
			p := l.sidecars[i]
			p.weigh(e.rule)
			if p.least > p.base {
				e.last = e.lower
			}
			share(i, p.at(e.last))
		}
	}
}
