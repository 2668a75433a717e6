package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

// dive is the branch and bound that decides what the relaxation leaves open: node by
// node, keep it or drop it into one of the bins, and relax again.
//
// Three rules leave out solutions that another one stands for. They hold together:
// take a solution whose kept nodes cannot be exchanged for the better under the first
// rule, and of those with the same kept nodes the one whose bins, read along the dive's
// order, are the least; it breaks none of them.
//
//   - If x costs at least as much as y everywhere, fits nowhere that y does not, and y is in no
//     group without x, then y is not kept while x is dropped: exchange them.
//   - Of two nodes that are alike, the later one goes into no earlier bin.
//   - A copy of a list is used only after the one before it.
type dive struct {
	path  [mask.MaxNode + 1]uint8
	depth int
	// worse are the nodes that may not be kept once the node is dropped.
	worse [mask.MaxNode + 1]mask.Mask
	// alike is the first node along the path that is like this one, latest[a] the last bin
	// that one of the nodes like a went into.
	alike, latest [mask.MaxNode + 1]int
}

// plunge decides the query from the state that ascend left.
func (s *search) plunge() bool {
	s.depth = 0
	order := s.undecided
	s.tolls()
	if _, _, _, ok := s.bid(); !ok {
		return false
	}
	for x := range order.All() {
		at := s.depth
		for ; at > 0 && s.pays[s.path[at-1]] < s.pays[x]; at-- {
			s.path[at] = s.path[at-1]
		}
		s.path[at] = uint8(x)
		s.depth++
	}
	s.compare()
	return s.descend(0)
}

// compare finds for every node on the path the worse ones and the one it is like.
func (s *search) compare() {
	p := &s.problem
	path := s.path[:s.depth]
	for i, x := range path {
		x := int(x)
		s.worse[x], s.alike[x], s.latest[x] = 0, x, -1
		for j, y := range path {
			y := int(y)
			if i == j || s.classOf(x) != s.classOf(y) {
				continue
			}
			above, below := p.covers(x, y), p.covers(y, x)
			if above && below && j < i && s.alike[y] == y && s.alike[x] == x {
				s.alike[x] = y
			}
			if above && (!below || i < j) && !s.barred.Has(x) {
				s.worse[x] = s.worse[x].With(y)
			}
		}
	}
}

// classOf is the index of the node's class, or -1 where the query has none.
func (s *search) classOf(x int) int {
	if len(s.query.classes) == 0 {
		return -1
	}
	return int(s.class[x])
}

// covers tells whether x could take the place of a kept y, and y that of a dropped x.
func (p *problem) covers(x, y int) bool {
	for b := range p.bins {
		bin := &p.bins[b]
		if !bin.open.Has(x) {
			continue
		}
		if !bin.open.Has(y) {
			return false
		}
		for t := bin.first; t < bin.end; t++ {
			if p.cost[t*p.stride+x] < p.cost[t*p.stride+y] {
				return false
			}
		}
	}
	for i := range p.groups {
		if g := &p.groups[i]; g.nodes.Has(y) && !g.nodes.Has(x) {
			return false
		}
	}
	return true
}

// descend decides the nodes of the path from i on.
func (s *search) descend(i int) bool {
	v, _ := s.relax()
	if v != unclear || s.over {
		return v == possible
	}
	x := int(s.path[i])
	first := s.bin[x]
	if s.chosen.Has(x) {
		first = -1
	}
	if s.tryKeep(i, x) {
		return true
	}
	if s.kept&s.worse[x] != 0 || s.over {
		return false
	}
	if first >= 0 && s.tryDrop(i, x, first) {
		return true
	}
	for b := range s.problem.bins {
		if b != first && s.tryDrop(i, x, b) {
			return true
		}
	}
	return false
}

func (s *search) tryKeep(i, x int) bool {
	c := s.classOf(x)
	if s.left == 0 || s.barred.Has(x) || c >= 0 && s.room[c] == 0 {
		return false
	}
	s.move(x, &s.kept)
	s.left--
	if c >= 0 {
		s.room[c]--
	}
	found := s.descend(i + 1)
	if c >= 0 {
		s.room[c]++
	}
	s.left++
	s.kept = s.kept.Without(x)
	s.undecided = s.undecided.With(x)
	return found
}

func (s *search) move(x int, to *mask.Mask) {
	s.undecided = s.undecided.Without(x)
	*to = to.With(x)
}

func (s *search) tryDrop(i, x, b int) bool {
	bin := &s.problem.bins[b]
	a := s.alike[x]
	if !bin.open.Has(x) || b < s.latest[a] || bin.twin && s.in[b-1] == 0 {
		return false
	}
	latest, barred := s.latest[a], s.barred
	if s.charge(b, x, 1) {
		s.latest[a] = b
		s.barred |= s.worse[x] & s.undecided
		s.move(x, &s.in[b])
		found := s.descend(i + 1)
		s.in[b] = s.in[b].Without(x)
		s.undecided = s.undecided.With(x)
		if found {
			return true
		}
	}
	s.charge(b, x, -1)
	s.latest[a], s.barred = latest, barred
	return false
}

// charge takes from what is spare what bin b loses with node x, or gives it back where
// sign is -1. False: it lost more than it could.
func (s *search) charge(b, x int, sign int64) bool {
	p := &s.problem
	ok := true
	for t := p.bins[b].first; t < p.bins[b].end; t++ {
		s.spare[t] -= sign * p.cost[t*p.stride+x]
		ok = ok && s.spare[t] >= 0
	}
	for i := range p.groups {
		if g := &p.groups[i]; g.bin == b && lost(g, s.in[b], mask.Mask(1)<<uint(x)) {
			s.spare[g.dim] -= sign * g.amount
			ok = ok && s.spare[g.dim] >= 0
		}
	}
	return ok
}
