package hint

import (
	"github.com/paddock-project/paddock/internal/core/hint/search"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// MinSize is the smallest number of candidates that together meet every need, at least 1, and
// false where not even all of them do. All needs count at once: if one NUMA node meets one of
// two needs and another one the other, the size is 2.
//
// It is exact unless DefaultBudget steps are not enough, which takes dozens of NUMA nodes
// that differ in several resources. Then it is a lower bound.
func MinSize(candidates mask.Mask, needs []Need) (int, bool) {
	s := Set{Kind: Fits, Candidates: candidates, Needs: needs}
	if !s.fits(candidates) {
		return 0, false
	}
	return narrowest(&search.Search{Budget: DefaultBudget}, &s), true
}

// narrowest is the size of the smallest mask of a set that is cut and not empty.
func narrowest(in *search.Search, s *Set) int {
	least := mask.MaxNode + 1
	for _, m := range s.Explicit {
		least = min(least, m.Len())
	}
	if s.Candidates == 0 {
		return least
	}
	in.Problem.Reset(s.Candidates)
	in.Problem.AddBin(s.Candidates&^s.Required, false)
	constrain(&in.Problem, s, s.Candidates)
	in.Problem.Finish()
	return in.Fewest(least)
}

// constrain makes the last bin lose no more than the upward closed part of the set can spare,
// where masks are cut from candidates; s.Required is up to the bin. It returns false if not
// even all candidates are a mask of the set.
func constrain(p *search.Problem, s *Set, candidates mask.Mask) bool {
	if !candidates.Contains(s.Required) {
		return false
	}
	for _, touch := range s.Touch {
		if !keepOneOf(p, touch&candidates) {
			return false
		}
	}
	for i := range s.Needs {
		if !spare(p, &s.Needs[i], candidates) {
			return false
		}
	}
	return true
}

// keepOneOf forbids that all of nodes are dropped into the last bin. NUMA nodes that are not part
// of the problem are never dropped.
func keepOneOf(p *search.Problem, nodes mask.Mask) bool {
	if !nodes.IsEmpty() && p.Nodes().Contains(nodes) {
		p.AddDimension(0)
		p.AddLoad(nodes, 1)
	}
	return !nodes.IsEmpty()
}

// spare adds a dimension for what the candidates offer beyond the need. Offers are cut to the
// amount, which changes no answer and keeps the sums far from overflow. Beyond that, sums stop at
// the largest int64, so that amounts of exabytes may be rejected but are never assigned twice.
func spare(p *search.Problem, n *Need, candidates mask.Mask) bool {
	if n.Amount <= 0 {
		return true
	}
	var total, atStake int64
	count := func(nodes mask.Mask, offer int64) {
		total = search.Add(total, offer)
		if p.Nodes().Contains(nodes) {
			atStake = search.Add(atStake, offer)
		}
	}
	for x := range candidates.All() {
		count(1<<x, min(n.offer(x), n.Amount))
	}
	for _, s := range n.Shared {
		if touched := s.Nodes & candidates; touched != 0 {
			count(touched, min(max(s.Amount, 0), n.Amount))
		}
	}
	if total < n.Amount {
		return false
	}
	slack := total - n.Amount
	if atStake <= slack {
		return true
	}
	p.AddDimension(slack)
	for x := range (p.Nodes() & candidates).All() {
		p.AddLoad(1<<x, min(n.offer(x), n.Amount))
	}
	for _, s := range n.Shared {
		if touched := s.Nodes & candidates; touched != 0 && p.Nodes().Contains(touched) {
			p.AddLoad(touched, min(max(s.Amount, 0), n.Amount))
		}
	}
	return true
}
