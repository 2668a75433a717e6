package search

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Search answers questions about Problem. The zero value is ready to use. All questions share the
// budget and reuse each other's memory.
type Search struct {
	// Budget is the number of steps that all questions together may take.
	Budget  int
	Problem Problem

	steps int
	question
	relaxation
	nearest nearest
}

// Steps returns the number of steps that the search has taken.
func (s *Search) Steps() int { return s.steps }

// Size returns the size that the last question asked for.
func (s *Search) Size() int { return s.query.size }

// Over reports whether the budget is used up. A mask found after that is still an answer. But it is
// not proved that there is no answer, or that no other answer is lower or closer.
func (s *Search) Over() bool { return s.steps > s.Budget }

// Spend counts steps and reports whether the budget still allows them.
func (s *Search) Spend(steps int) bool {
	s.steps += steps
	return !s.Over()
}

// query asks for size NUMA nodes to keep. They must include all of keep and none of drop, and no
// more NUMA nodes of each quota than it allows. Either every NUMA node is in exactly one quota or
// there are no quotas.
type query struct {
	size       int
	keep, drop mask.Mask
	quotas     []quota
}

type quota struct {
	nodes mask.Mask
	most  int
}

// question is a query and the decisions made for its answer so far.
type question struct {
	query query
	// kept has the NUMA nodes that are decided to be kept, in[b] those that are decided to go into
	// bin b. undecided has the others, without the free ones.
	kept, undecided mask.Mask
	in              []mask.Mask
	// left is the number of NUMA nodes that may still be kept. room is the same for each quota.
	left int
	room []int
	// quota is the index of the quota of each NUMA node, if there are quotas.
	quota [mask.MaxNode + 1]uint8
	// spare is the remaining capacity of each dimension. spareParts is the same in parts, and never
	// less.
	spare, spareParts []int64
}

// Any returns a mask of size NUMA nodes that answers the problem, or false if there is none.
func (s *Search) Any(size int) (mask.Mask, bool) {
	s.startPrices()
	return s.answer(query{size: size})
}

// Fewest returns the size of the smallest answers, or most if they have most NUMA nodes or more. It
// tries one size after the other. If the budget ends, it returns the size that it tried last.
func (s *Search) Fewest(most int) int {
	size := s.Problem.fewest()
	if len(s.Problem.capacity) == 1 && len(s.Problem.joints) == 0 {
		return min(size, most)
	}
	for ; size < most; size++ {
		if _, ok := s.Any(size); ok || s.Over() {
			break
		}
	}
	return min(size, most)
}

// fewest returns a lower bound for the size of the answers. In each dimension of the bin, it drops
// the NUMA nodes with the smallest loads while there is capacity. With one dimension and no joint
// loads, the bound is the size of the smallest answers.
func (p *Problem) fewest() int {
	least := max(p.pinned.Len(), 1)
	if len(p.bins) != 1 {
		return least
	}
	var buffer [mask.MaxNode + 1]int64
	for t, spare := range p.capacity {
		loads := buffer[:0]
		for x := range (p.nodes &^ p.pinned).All() {
			loads = append(loads, p.load[t*p.stride+x])
		}
		slices.Sort(loads)
		keep := p.nodes.Len()
		for _, load := range loads {
			if spare -= load; spare < 0 {
				break
			}
			keep--
		}
		least = max(least, keep)
	}
	return least
}

// answer returns a mask that answers the query, or false. The mask has exactly the requested size.
// It is always possible to keep more than necessary, so answer adds the lowest NUMA nodes that may
// be kept.
func (s *Search) answer(q query) (mask.Mask, bool) {
	if !s.begin(q) || !s.branch() {
		return 0, false
	}
	return s.complete(s.chosen), true
}

// begin resets the state to the query. It returns false if counting NUMA nodes already rules out an
// answer.
func (s *Search) begin(q query) bool {
	p := &s.Problem
	s.query = q
	s.kept = q.keep | p.pinned
	s.left = q.size - s.kept.Len()
	s.room = s.room[:0]
	if s.left < 0 || s.kept&q.drop != 0 {
		return false
	}
	for i, c := range q.quotas {
		room := c.most - (s.kept & c.nodes).Len()
		if room < 0 {
			return false
		}
		s.room = append(s.room, room)
		for rest := c.nodes; rest != 0; rest &= rest - 1 {
			s.quota[rest.Lowest()] = uint8(i)
		}
	}
	if s.complete(s.kept).Len() < q.size {
		return false
	}
	s.undecided = p.nodes &^ s.kept &^ p.free
	s.in = slices.Grow(s.in[:0], len(p.bins))[:len(p.bins)]
	clear(s.in)
	s.spare = append(s.spare[:0], p.capacity...)
	s.spareParts = slices.Grow(s.spareParts[:0], len(p.capacity))
	for _, capacity := range p.capacity {
		s.spareParts = append(s.spareParts, part(capacity, capacity))
	}
	return true
}

// complete adds the lowest NUMA nodes to chosen, up to the query's size and within its quotas.
func (s *Search) complete(chosen mask.Mask) mask.Mask {
	more := s.Problem.nodes &^ s.query.drop &^ chosen
	if len(s.query.quotas) > 0 {
		allowed := mask.Mask(0)
		for _, q := range s.query.quotas {
			allowed |= (q.nodes & more).First(q.most - (chosen & q.nodes).Len())
		}
		more = allowed
	}
	return chosen | more.First(s.query.size-chosen.Len())
}
