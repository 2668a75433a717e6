package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// search is what one Merge works with: the budget, and memory that all its questions
// share.
type search struct {
	budget, steps int
	over          bool
	problem       problem
	relaxation
	dive
}

// spend counts steps; false once the budget is used up.
func (s *search) spend(steps int) bool {
	if s.steps += steps; s.steps > s.budget {
		s.over = true
	}
	return !s.over
}

// query asks whether at most size nodes can be kept, all of keep and none of drop among
// them, and at most most[c] nodes of each class c.
type query struct {
	size       int
	keep, drop mask.Mask
	classes    []mask.Mask
	most       []int
}

// feasible answers the query for s.problem. The mask has exactly size nodes: keeping
// more than is needed is always possible, so the lowest ids that may be kept fill it up.
// When the budget ends it says no; s.over then tells that this proves nothing.
func (s *search) feasible(q query) (mask.Mask, bool) {
	if !s.begin(q) {
		return 0, false
	}
	v := s.ascend()
	if v == unclear && s.plunge() {
		v = possible
	}
	if v != possible {
		return 0, false
	}
	return lowestOf(s.problem.nodes&^q.drop, s.chosen, q), true
}

// begin sets the state to the query's; false when counting nodes already forbids it.
func (s *search) begin(q query) bool {
	p := &s.problem
	s.query = q
	s.kept = q.keep | p.pinned
	s.left = q.size - s.kept.Len()
	if s.left < 0 || s.kept&q.drop != 0 {
		return false
	}
	if lowestOf(p.nodes&^q.drop, s.kept, q).Len() < q.size {
		return false
	}
	s.room = s.room[:0]
	for c, class := range q.classes {
		room := q.most[c] - (s.kept & class).Len()
		if room < 0 {
			return false
		}
		s.room = append(s.room, room)
		for rest := class; rest != 0; rest &= rest - 1 {
			s.class[rest.Lowest()] = uint8(c)
		}
	}
	s.undecided = p.nodes &^ s.kept &^ p.free
	s.barred = q.drop
	s.spare = append(s.spare[:0], p.slack...)
	s.in = slices.Grow(s.in[:0], len(p.bins))[:len(p.bins)]
	clear(s.in)
	return true
}

// lowestOf adds the lowest ids of from to chosen, up to the query's size and no more
// from a class than it allows.
func lowestOf(from, chosen mask.Mask, q query) mask.Mask {
	left := q.size - chosen.Len()
	if q.classes == nil {
		return chosen | lowest(from&^chosen, left)
	}
	var more mask.Mask
	for c, class := range q.classes {
		more |= lowest(from&class&^chosen, q.most[c]-(chosen&class).Len())
	}
	return chosen | lowest(more, left)
}

// lowest returns the n lowest ids of m, or m if it has fewer.
func lowest(m mask.Mask, n int) mask.Mask {
	if n <= 0 {
		return 0
	}
	rest := m
	for range n {
		rest &= rest - 1
	}
	return m &^ rest
}
