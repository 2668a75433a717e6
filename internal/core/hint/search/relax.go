package search

import (
	"math"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// verdict is what a relaxation proves about a question.
type verdict int

const (
	unclear verdict = iota
	possible
	impossible
)

// Prices start in the middle of their range. They can rise or fall from there by a factor of 1,024,
// about 31 times in a row. The lowest price is large enough to change by a fifth in whole numbers.
// The highest price times all parts of a capacity is 2^44, so what 64 NUMA nodes pay in thousands
// of dimensions remains below 2^63.
const (
	leastPrice = 1 << 4
	startPrice = 1 << 14
	mostPrice  = 1 << 24
)

// shares is the number of steps in which the share of a joint load rises from nothing to the whole
// load. On 64 NUMA nodes with 64 devices between three NUMA nodes each, 60 requests took 98,000
// steps with 4 shares, 26,000 with 8 and 35,000 with 16.
const shares = 8

// relaxation is the Lagrangian relaxation of a question. A dropped NUMA node need not fit but pays
// for what it takes from its bin.
type relaxation struct {
	// price is the cost of one part of each dimension.
	price []int64
	// share is the part of a joint load for which its NUMA nodes pay, from 0 to shares. toll is
	// what each of them pays, or 0 if the load cannot be taken any more.
	share []int64
	toll  []int64

	// The results of relax: the cheapest bin of every undecided NUMA node and what it pays there,
	// the NUMA nodes by falling pay, those that are kept, those that are dropped by bin, and the
	// dimensions that they overload.
	bin      [mask.MaxNode + 1]int
	pays     [mask.MaxNode + 1]int64
	order    [mask.MaxNode + 1]uint8
	chosen   mask.Mask
	into     []mask.Mask
	overload []bool
	// roomLeft is the remaining room of each quota while relax chooses.
	roomLeft []int
}

// startPrices prepares the relaxation for a new problem or a new size.
func (s *Search) startPrices() {
	if len(s.Problem.parts) != len(s.Problem.load) { // Once per problem.
		s.Problem.divide()
	}
	s.price, s.share = slices.Grow(s.price[:0], len(s.Problem.capacity)), s.share[:0]
	for range s.Problem.capacity {
		s.price = append(s.price, startPrice)
	}
	for range s.Problem.joints {
		s.share = append(s.share, shares)
	}
}

// reprice makes overloaded dimensions a quarter more expensive and the others a fifth cheaper,
// which is the inverse. Changes of an eighth and of a half take about as many steps. Doubling takes
// up to half more.
func (s *Search) reprice() {
	for t, over := range s.overload {
		if over {
			s.price[t] = min(s.price[t]+s.price[t]/4, mostPrice)
		} else {
			s.price[t] = max(s.price[t]-s.price[t]/5, leastPrice)
		}
	}
	for i := range s.Problem.joints {
		if j := &s.Problem.joints[i]; s.toll[i] > 0 {
			// excess is 1 if the relaxation takes the load, 0 if one NUMA node is missing, and so
			// on.
			excess := (j.nodes & (s.into[j.bin] | s.in[j.bin])).Len() - j.nodes.Len() + 1
			s.share[i] = min(max(s.share[i]+int64(excess), 0), shares)
		}
	}
}

// relax drops every undecided NUMA node into its cheapest bin, except for those that pay most,
// which it keeps. If the dropped NUMA nodes fit, the question has an answer. If they pay more than
// everything that is spare costs, it has none: no other choice pays less, and a choice that fits
// cannot pay more than that.
func (s *Search) relax() verdict {
	// The time of a relaxation grows with the number of NUMA nodes. One additional step for every 8
	// NUMA nodes keeps steps about equally long.
	if !s.Spend(1 + s.undecided.Len()/8) {
		return impossible
	}
	worth := s.worth()
	n, paid, choice, ok := s.offers()
	left := s.left - (s.chosen &^ s.kept).Len()
	if !ok || left < 0 {
		return impossible
	}
	s.roomLeft = append(s.roomLeft[:0], s.room...)
	for rest := s.chosen &^ s.kept; rest != 0; rest &= rest - 1 {
		if !s.takeRoom(rest.Lowest()) {
			return impossible
		}
	}
	for _, x := range s.order[:n] {
		if node := mask.Mask(1) << x; left > 0 && s.takeRoom(int(x)) {
			s.chosen |= node
			left--
		} else {
			paid = Add(paid, s.pays[x])
			s.into[s.bin[x]] |= node
			choice = true
		}
	}
	switch {
	case paid > worth:
		return impossible
	case s.fits():
		return possible
	case !choice:
		return impossible
	}
	return unclear
}

// offers finds the cheapest bin of every undecided NUMA node. It keeps a NUMA node that fits into
// no bin. A NUMA node that must not be kept pays at once. The others are sorted. choice reports
// whether some NUMA node had more than one bin.
func (s *Search) offers() (n int, paid int64, choice, ok bool) {
	s.chosen = s.kept
	s.into = slices.Grow(s.into[:0], len(s.in))[:len(s.in)]
	clear(s.into)
	for rest := s.undecided; rest != 0; rest &= rest - 1 {
		x := bits.TrailingZeros64(uint64(rest))
		options, least := 0, int64(math.MaxInt64)
		for b := range s.Problem.bins {
			if pay, ok := s.pay(b, x); ok {
				options++
				if pay < least {
					least, s.bin[x] = pay, b
				}
			}
		}
		choice = choice || options > 1
		s.pays[x] = least
		dropped := s.query.drop.Has(x)
		switch {
		case options == 0 && dropped:
			return 0, 0, false, false
		case options == 0:
			s.chosen = s.chosen.With(x)
		case dropped:
			paid = Add(paid, least)
			s.into[s.bin[x]] |= 1 << uint(x)
		default:
			at := n
			for ; at > 0 && s.pays[s.order[at-1]] < least; at-- {
				s.order[at] = s.order[at-1]
			}
			s.order[at] = uint8(x)
			n++
		}
	}
	return n, paid, choice, true
}

// takeRoom makes the relaxation keep x. It returns false if the quota of x is used up.
func (s *Search) takeRoom(x int) bool {
	if len(s.roomLeft) == 0 {
		return true
	}
	room := &s.roomLeft[s.quota[x]]
	if *room == 0 {
		return false
	}
	*room--
	return true
}

// pay returns what NUMA node x pays for going into bin b. It returns false if x does not fit.
func (s *Search) pay(b, x int) (int64, bool) {
	p := &s.Problem
	bin := &p.bins[b]
	if !bin.open.Has(x) {
		return 0, false
	}
	var pay int64
	for t := bin.first; t < bin.end; t++ {
		at := t*p.stride + x
		if p.load[at] > s.spare[t] {
			return 0, false
		}
		pay += s.price[t] * int64(p.parts[at])
	}
	for i := range p.joints {
		if j := &p.joints[i]; j.bin == b && j.nodes.Has(x) {
			pay += s.toll[i]
		}
	}
	return pay, true
}

// worth returns the cost of everything that is spare, and sets the tolls of the joint loads. If n
// NUMA nodes of a joint load are undecided, the load is taken when all n are dropped. So it is at
// least toll·(dropped-(n-1)) for any toll up to the whole load. Dropped NUMA nodes pay the toll,
// and the rest adds to what is spare.
func (s *Search) worth() (worth int64) {
	p := &s.Problem
	for t, spare := range s.spareParts {
		worth = Add(worth, s.price[t]*spare)
	}
	s.toll = s.toll[:0]
	for i := range p.joints {
		j := &p.joints[i]
		open := j.nodes & s.undecided
		toll := int64(0)
		if open != 0 && j.nodes&^open&^s.in[j.bin] == 0 {
			if toll = s.price[j.dim] * j.parts; open.Len() > 1 {
				toll = toll / shares * s.share[i]
			}
			worth = Add(worth, toll*int64(open.Len()-1))
		}
		s.toll = append(s.toll, toll)
	}
	return worth
}

// fits reports whether the NUMA nodes that the relaxation drops fit into the bins, and finds the
// dimensions that they overload.
func (s *Search) fits() bool {
	p := &s.Problem
	s.overload = slices.Grow(s.overload[:0], len(p.capacity))[:len(p.capacity)]
	ok := true
	for b, nodes := range s.into {
		for t := p.bins[b].first; t < p.bins[b].end; t++ {
			loads := p.load[t*p.stride:]
			var sum int64
			for rest := nodes; rest != 0; rest &= rest - 1 {
				sum = Add(sum, loads[bits.TrailingZeros64(uint64(rest))])
			}
			for i := range p.joints {
				if j := &p.joints[i]; j.dim == t && j.completedBy(nodes, s.in[b]) {
					sum = Add(sum, j.load)
				}
			}
			s.overload[t] = sum > s.spare[t]
			ok = ok && !s.overload[t]
		}
	}
	return ok
}

// completedBy reports whether dropping nodes completes the load, if the NUMA nodes of before are
// already dropped.
func (j *joint) completedBy(nodes, before mask.Mask) bool {
	return j.nodes&nodes != 0 && j.nodes&^before&^nodes == 0
}
