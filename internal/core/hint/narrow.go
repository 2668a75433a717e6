package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

// smallest is the numerically smallest mask of q.size nodes that answers the query, in
// which nothing is kept beforehand, or 0. Where the budget ends on the way it is some
// mask that answers it, and 0 only if none was found.
//
// Going from the highest id down, a node that the mask in hand can do without is
// forbidden, and one that no other mask can do without is kept. That never goes back,
// because feasible is exact; it asks once per kept candidate, not once per mask.
func (s *search) smallest(q query) mask.Mask {
	if s.problem.pinned&q.drop != 0 {
		return 0
	}
	nodes := s.problem.nodes &^ q.drop
	first := q
	first.keep = lowestOf(nodes, s.problem.pinned, q)
	first.drop = s.problem.nodes &^ first.keep
	if first.keep.Len() != q.size {
		return 0
	}
	if _, ok := s.feasible(first); ok {
		return first.keep
	}
	found, ok := s.feasible(q)
	if !ok {
		return 0
	}
	for x := nodes.Highest(); x >= 0 && q.keep.Len() < q.size; x-- {
		switch {
		case !nodes.Has(x):
			continue
		case !found.Has(x):
			q.drop = q.drop.With(x)
			continue
		}
		without := q
		without.drop = q.drop.With(x)
		if other, ok := s.feasible(without); ok {
			found, q.drop = other, without.drop
		} else {
			q.keep = q.keep.With(x)
		}
		if s.over {
			break
		}
	}
	return found
}
