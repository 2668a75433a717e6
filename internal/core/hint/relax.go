package hint

import (
	"math"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// verdict is what a relaxation tells of the state.
type verdict int

const (
	unclear verdict = iota
	possible
	impossible
)

// margin is how much more than allowed a sum of floats must be before it proves
// anything. The sums have at most a few hundred terms, so their error is far smaller.
const margin = 1e-9

// rounds bounds the improvement of the prices at the root. More rarely change a verdict.
const rounds = 25

// relaxation is the state of a query and its Lagrangian relaxation: every dimension of
// every bin has a price, and instead of fitting into the bins a dropped node pays.
type relaxation struct {
	query query
	// kept are decided to stay, in[b] to be dropped into bin b with an effect; the
	// undecided are open, less those barred, which may not stay. left more may stay, room[c]
	// of class c. spare is what is left of each dimension's slack.
	kept, undecided, barred mask.Mask
	in                      []mask.Mask
	left                    int
	room                    []int
	spare                   []int64
	// class is the index of each node's class, meaningful where the query has classes.
	class [mask.MaxNode + 1]uint8

	price []float64 // of one unit of a dimension
	share []float64 // of a group: how much of its amount the relaxation lets its nodes pay

	// What relax found: the cheapest bin of every undecided node and its price there,
	// the order by falling price, the nodes that stay, and the use of every dimension.
	bin    [mask.MaxNode + 1]int
	pays   [mask.MaxNode + 1]float64
	order  [mask.MaxNode + 1]uint8
	chosen mask.Mask
	into   []mask.Mask
	use    []int64
	toll   []float64 // by group: what a node of it pays; 0 when it cannot be lost any more
	best   []float64
	spared []int
}

// ascend improves the prices until the relaxation decides or the rounds end; the best
// prices stay for the dive.
func (s *search) ascend() verdict {
	p := &s.problem
	s.price, s.share = s.price[:0], s.share[:0]
	for _, slack := range p.slack {
		s.price = append(s.price, 1/float64(max(slack, 1)))
	}
	for range p.groups {
		s.share = append(s.share, 1)
	}
	return s.improve(rounds, unclear)
}

// improve reprices for some rounds and leaves the prices under which the relaxation
// came closest to proving the query impossible. It ends early with a verdict above the
// given one.
func (s *search) improve(rounds int, above verdict) verdict {
	highest := math.Inf(-1)
	for round := range rounds {
		v, gap := s.relax()
		if v > above {
			return v
		}
		if gap > highest {
			highest = gap
			s.best = append(append(s.best[:0], s.price...), s.share...)
		}
		s.reprice(0.6 / (1 + float64(round)/3))
	}
	copy(s.price, s.best)
	copy(s.share, s.best[len(s.price):])
	return unclear
}

// reprice raises the price of what is overused and lowers that of what is not.
func (s *search) reprice(step float64) {
	p := &s.problem
	for t, slack := range p.slack {
		over := float64(s.use[t]) / float64(max(slack, 1))
		for i := range p.groups {
			if g := &p.groups[i]; g.dim == t && s.toll[i] > 0 {
				over += s.share[i] * float64(g.amount) * float64(s.excess(g)) / float64(max(slack, 1))
			}
		}
		s.price[t] *= min(max(1+step*(over-1), 0.2), 5)
	}
	for i := range p.groups {
		if s.toll[i] > 0 {
			s.share[i] = min(max(s.share[i]+step*float64(s.excess(&p.groups[i])), 0), 1)
		}
	}
}

// excess is 1 where the relaxation loses the whole group, 0 where one node of it stays,
// and less where more do.
func (s *search) excess(g *group) int {
	return (g.nodes & (s.into[g.bin] | s.in[g.bin])).Len() - g.nodes.Len() + 1
}

// relax lets every undecided node stay or pay, at the least total price. If that fits,
// the query is possible; if it costs more than everything that is spare is worth, it is
// impossible. The gap is by how much the price falls short of, or passes, that worth.
func (s *search) relax() (verdict, float64) {
	p := &s.problem
	if !s.spend(1 + s.undecided.Len()/8) {
		return impossible, 0
	}
	worth := s.tolls()
	for t, spare := range s.spare {
		worth += s.price[t] * float64(spare)
	}
	s.chosen = s.kept
	s.into = slices.Grow(s.into[:0], len(p.bins))[:len(p.bins)]
	clear(s.into)
	n, paid, choice, ok := s.bid()
	left := s.left - (s.chosen &^ s.kept).Len()
	s.spared = append(s.spared[:0], s.room...)
	if !ok || left < 0 {
		return impossible, 0
	}
	for rest := s.chosen &^ s.kept; rest != 0; rest &= rest - 1 {
		if !s.takeRoom(rest.Lowest()) {
			return impossible, 0
		}
	}
	for _, x := range s.order[:n] {
		if node := mask.Mask(1) << x; left > 0 && s.takeRoom(int(x)) {
			s.chosen |= node
			left--
		} else {
			paid += s.pays[x]
			s.into[s.bin[x]] |= node
			choice = choice || !s.barred.Has(int(x))
		}
	}
	if paid-worth > margin*(paid+math.Abs(worth)) {
		return impossible, 0
	}
	if s.fits() {
		return possible, paid - worth
	}
	if !choice {
		return impossible, 0
	}
	return unclear, paid - worth
}

// bid finds the cheapest bin of every undecided node. Nodes without one stay; barred
// ones pay at once; the others are put in order. choice tells that some node had more
// than one bin.
func (s *search) bid() (n int, paid float64, choice, ok bool) {
	p := &s.problem
	for rest := s.undecided; rest != 0; rest &= rest - 1 {
		x := bits.TrailingZeros64(uint64(rest))
		options, least := 0, math.Inf(1)
		for b := range p.bins {
			if price, ok := s.priceOf(b, x); ok {
				options++
				if price < least {
					least, s.bin[x] = price, b
				}
			}
		}
		choice = choice || options > 1
		switch {
		case options == 0 && s.barred.Has(x):
			return 0, 0, false, false
		case options == 0:
			s.chosen = s.chosen.With(x)
		case s.barred.Has(x):
			paid += least
			s.into[s.bin[x]] |= 1 << uint(x)
			s.pays[x] = least
		default:
			s.pays[x] = least
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

// takeRoom lets the relaxation keep x; false when its class has no room left.
func (s *search) takeRoom(x int) bool {
	if len(s.spared) == 0 {
		return true
	}
	c := s.class[x]
	if s.spared[c] == 0 {
		return false
	}
	s.spared[c]--
	return true
}

// priceOf is what dropping node x into bin b pays; false when it does not fit.
func (s *search) priceOf(b, x int) (float64, bool) {
	p := &s.problem
	bin := &p.bins[b]
	if !bin.open.Has(x) {
		return 0, false
	}
	var price float64
	for t := bin.first; t < bin.end; t++ {
		cost := p.cost[t*p.stride+x]
		if cost > s.spare[t] {
			return 0, false
		}
		price += s.price[t] * float64(cost)
	}
	for i := range p.groups {
		if g := &p.groups[i]; g.bin == b && g.nodes.Has(x) {
			price += s.toll[i]
		}
	}
	return price, true
}

// tolls sets what the nodes of each group pay. A group is lost when all its nodes are
// dropped into its bin, so it loses at least amount*(dropped-others), others being the
// number of its undecided nodes less one. Nodes pay the first part; the second is
// returned, as it adds to what is spare. Groups that keep a node cost nothing any more.
func (s *search) tolls() (worth float64) {
	p := &s.problem
	s.toll = s.toll[:0]
	for i := range p.groups {
		g := &p.groups[i]
		open := g.nodes & s.undecided
		if open == 0 || g.nodes&^open&^s.in[g.bin] != 0 {
			s.toll = append(s.toll, 0)
			continue
		}
		toll := s.price[g.dim] * float64(g.amount)
		if open.Len() > 1 {
			toll *= s.share[i]
		}
		s.toll = append(s.toll, toll)
		worth += toll * float64(open.Len()-1)
	}
	return worth
}

// fits tells whether what the relaxation drops really fits, counting in whole numbers.
func (s *search) fits() bool {
	p := &s.problem
	s.use = slices.Grow(s.use[:0], len(p.slack))[:len(p.slack)]
	clear(s.use)
	ok := true
	for b, nodes := range s.into {
		for t := p.bins[b].first; t < p.bins[b].end; t++ {
			costs := p.cost[t*p.stride:]
			var use int64
			for rest := nodes; rest != 0; rest &= rest - 1 {
				use = add(use, costs[bits.TrailingZeros64(uint64(rest))])
			}
			s.use[t] = use
			ok = ok && use <= s.spare[t]
		}
	}
	return ok && (len(p.groups) == 0 || s.groupsFit())
}

// groupsFit counts the groups that the relaxation loses, on top of s.use.
func (s *search) groupsFit() bool {
	p := &s.problem
	ok := true
	for t := range p.slack {
		use := s.use[t]
		for i := range p.groups {
			if g := &p.groups[i]; g.dim == t && lost(g, s.in[g.bin], s.into[g.bin]) {
				use = add(use, g.amount)
			}
		}
		ok = ok && use <= s.spare[t]
	}
	return ok
}

// lost tells whether dropping more after before loses the group.
func lost(g *group, before, more mask.Mask) bool {
	return g.nodes&more != 0 && g.nodes&^before&^more == 0
}
