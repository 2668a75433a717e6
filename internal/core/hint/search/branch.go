package search

import (
	"math"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// branch answers the question by branch and bound. If the relaxation leaves it open, branch takes
// the NUMA node that pays most. It tries to keep this NUMA node, and then to drop it into each bin
// in turn. Before that, reprice adjusts the prices according to what the relaxation overloaded, so
// that prices improve with every step.
func (s *Search) branch() bool {
	if v := s.relax(); v != unclear || s.Over() {
		return v == possible
	}
	x, most := 0, int64(-1)
	for y := range s.undecided.All() {
		if s.pays[y] > most && s.pays[y] < math.MaxInt64 {
			x, most = y, s.pays[y]
		}
	}
	cheapest := s.bin[x]
	s.reprice()
	if s.keep(x) || s.drop(x, cheapest) {
		return true
	}
	for b := range s.Problem.bins {
		if b != cheapest && s.drop(x, b) {
			return true
		}
	}
	return false
}

// keep keeps x and answers the rest of the question.
func (s *Search) keep(x int) bool {
	room := &s.left
	if len(s.room) > 0 {
		room = &s.room[s.quota[x]]
	}
	if s.left == 0 || *room == 0 || s.query.drop.Has(x) {
		return false
	}
	kept, undecided, left, before := s.kept, s.undecided, s.left, *room
	s.kept, s.undecided = kept.With(x), undecided.Without(x)
	s.left, *room = left-1, before-1
	found := s.branch()
	*room = before
	s.kept, s.undecided, s.left = kept, undecided, left
	return found
}

// drop drops x into bin b and answers the rest of the question. Of bins that are copies of each
// other, it uses the first ones first.
func (s *Search) drop(x, b int) bool {
	bin := &s.Problem.bins[b]
	if s.Over() || !bin.open.Has(x) || bin.copied && s.in[b-1] == 0 {
		return false
	}
	in, undecided := s.in[b], s.undecided
	found := s.take(b, x, 1)
	if found {
		s.in[b], s.undecided = in.With(x), undecided.Without(x)
		found = s.branch()
		s.in[b], s.undecided = in, undecided
	}
	s.take(b, x, -1)
	return found
}

// take subtracts the loads of x in bin b from what is spare. If sign is -1, it adds them back. It
// returns whether there was enough.
func (s *Search) take(b, x int, sign int64) bool {
	p := &s.Problem
	ok := true
	for t := p.bins[b].first; t < p.bins[b].end; t++ {
		s.spare[t] -= sign * p.load[t*p.stride+x]
		s.spareParts[t] -= sign * int64(p.parts[t*p.stride+x])
		ok = ok && s.spare[t] >= 0
	}
	for i := range p.joints {
		if j := &p.joints[i]; j.bin == b && j.completedBy(mask.Mask(1)<<uint(x), s.in[b]) {
			s.spare[j.dim] -= sign * j.load
			s.spareParts[j.dim] -= sign * j.parts
			ok = ok && s.spare[j.dim] >= 0
		}
	}
	return ok
}
