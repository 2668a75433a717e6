package search

import "github.com/paddock-project/paddock/internal/core/mask"

// Lowest returns the numerically smallest mask of size NUMA nodes that answers the problem, or 0 if
// there is none. If the budget ends during the search, the result may be any mask that answers the
// problem, and is 0 only if none was found.
func (s *Search) Lowest(size int) mask.Mask {
	s.startPrices()
	return s.lowest(query{size: size})
}

// lowest implements Lowest for a query whose keep is empty.
//
// From the highest id down, it drops a NUMA node if an answer without it exists, and keeps it
// otherwise. A decision is final, because answer is exact. A known mask makes the question
// unnecessary for every NUMA node that the mask does not have.
func (s *Search) lowest(q query) mask.Mask {
	p := &s.Problem
	s.query = q
	first := q
	first.keep = s.complete(p.pinned)
	first.drop = p.nodes &^ first.keep
	if first.keep.Len() != q.size || p.pinned&q.drop != 0 {
		return 0
	}
	if _, ok := s.answer(first); ok {
		return first.keep
	}
	found, ok := s.answer(q)
	if !ok {
		return 0
	}
	for x := p.nodes.Highest(); x >= 0 && q.keep.Len() < q.size && !s.Over(); x-- {
		if !found.Has(x) {
			q.drop |= p.nodes & mask.Of(x)
			continue
		}
		without := q
		without.drop = q.drop.With(x)
		if other, ok := s.answer(without); ok {
			found, q.drop = other, without.drop
		} else {
			q.keep = q.keep.With(x)
		}
	}
	return found
}
