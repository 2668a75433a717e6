package quota

import (
	"math/bits"
	"slices"
)

// level is the share of one unit of weight in a division: left/weights. A negative left counts as
// 0. If weights is 0, there is no level: it compares as above all others.
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

// lower returns the lower of the two levels.
func (l level) lower(m level) level {
	if m.less(l) {
		return m
	}
	return l
}

// times returns left·weight/weights, rounded down, or unbounded if that is less.
func (l level) times(weight Quota) Quota {
	high, low := bits.Mul64(uint64(max(l.left, 0)), uint64(weight))
	if high >= uint64(l.weights) {
		return unbounded
	}
	quotient, _ := bits.Div64(high, low, uint64(l.weights))
	return Quota(min(quotient, unbounded))
}

// levels divides the phases of init containers: each among the first few sidecars of the pod and
// the init container. The cost of a phase is logarithmic in the number of sidecars, for each turn
// of its division.
//
// It takes the same turns as divide. The state of divide follows from two levels: the level up to
// which parts are done at their lower bound, and the level up to which they are done at their upper
// bound.
//
//   - At a level l, the lower bound counts for the parts with l < (least-base)/weight, and the
//     upper bound counts for those with l >= (most-base+1)/weight. In the order of these
//     thresholds, both are the first few parts, so a turn needs only sums over the first few parts.
//   - Ending parts at their lower bounds lowers the level of the others. Ending parts at their
//     upper bounds raises it. So while only one kind of bound counts, parts that are done would be
//     at their bound at every later level too.
//   - If weights are limits, only one kind counts in a phase. At a level of at most 1, the fair
//     share is at most the limit. Above 1 it is at least the limit, and so at least the request.
//     The level never crosses 1.
//   - If weights are requests, only one kind counts too. If the requests fit, a level below 1 ends
//     every part at its request at once, and any other level only rises. If they do not fit, the
//     level is below 1 and only falls. The fair share is then at most the request, and so at most
//     the limit.
//   - In equal parts, both can count. The only lower bound is Least, of the parts without a
//     base, at a level below Least: of all of them or of none. Before they end there, upper
//     bounds only raised the level. Ending them takes less than what the last turn of upper bounds
//     left beyond their need, so the level does not fall below one at which an upper bound ended a
//     part. Rounding can raise it above Least afterwards. These parts stay at Least.
//
// So a part gets part.at of the last level or, if it can be at its lower bound, of the lowest of
// the last level and the levels that ended parts at lower bounds. Both grow with the level,
// whatever the phase. So of the phases of a sidecar that have the same rule, only the lowest levels
// count. TestQuotasOneByOne compares the result with that of dividing every phase as a list.
type levels struct {
	sidecars  []part
	sums      []phase // of the first sidecars
	divisions map[rule]*division
	ends      []end
}

// end is the result of the division of a phase: its rule, its number of sidecars, the level for the
// parts that can be at their lower bound, and the level for the others.
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

// phase divides rest among the first n sidecars and own, which is the init container, or nil if it
// does not share. It sets own's quota. Callers divide phases in the order of n.
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

// least calls share with the least share of each sidecar in all phases. It omits sidecars without a
// phase.
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
