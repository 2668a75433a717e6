package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint/search"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// MinSize returns the smallest number of candidates that together meet every need, at least 1. It
// returns false if not even all candidates do. All needs count at once: if one NUMA node meets one
// of two needs and another NUMA node meets the other, the size is 2.
//
// The size is exact unless DefaultBudget steps are not enough, which takes dozens of NUMA nodes
// that differ in several resources. In that case it is a lower bound.
func MinSize(candidates mask.Mask, needs []Need) (int, bool) {
	if oneMeets(candidates, needs) {
		return 1, true
	}
	size, ok := narrowest(&search.Search{Budget: DefaultBudget}, &Set{Kind: Fits, Candidates: candidates, Needs: needs})
	if !ok {
		return 0, false
	}
	return size, true
}

// countedExactly is the number of candidates up to which the masks of a set are counted one by one.
const countedExactly = 10

// ManyCombinations reports whether one mask can be taken from each list of hints of the sets in at
// least limit ways. A merge that does not search visits each of them (R-HINT-80). It looks at few
// masks itself: for most requests it compares sizes, and of a set with more than countedExactly
// candidates it counts only masks that contain one that fits, so that it can miss some.
func ManyCombinations(sets []Set, limit int64) bool {
	reaches := func(count func(*Set) int64) bool {
		product := int64(1)
		for i := range sets {
			if sets[i].Kind != Fits {
				continue
			}
			n := max(1, count(&sets[i])) // An empty list counts as one hint.
			for range sets[i].copies() {
				if n >= (limit+product-1)/product {
					return true
				}
				product *= n
			}
		}
		return false
	}
	return reaches((*Set).atMost) && reaches((*Set).count)
}

// atMost returns a bound of the number of masks of the set.
func (s *Set) atMost() int64 {
	return power(s.Candidates&^s.Required) + int64(len(s.Explicit))
}

// count returns the number of masks of the set, or a smaller one if it has many candidates.
func (s *Set) count() int64 {
	n := int64(0)
	for i, m := range s.Explicit {
		if !m.IsEmpty() && !s.fits(m) && !slices.Contains(s.Explicit[:i], m) {
			n++
		}
	}
	free := s.Candidates &^ s.Required
	switch {
	case !s.fits(s.Candidates):
		return n
	case free.Len() > countedExactly:
		size := s.Required.Len()
		for !s.fitsOn(size) {
			size++
		}
		return n + power(free.First(s.Candidates.Len()-size))
	}
	for part := free; ; part = (part - 1) & free {
		if s.fits(part | s.Required) {
			n++
		}
		if part == 0 {
			return n
		}
	}
}

// power returns the number of subsets of m, or 2^40 if there are more.
func power(m mask.Mask) int64 { return 1 << min(m.Len(), 40) }

// oneMeets reports whether some candidate meets every need on its own. No size is smaller than 1.
func oneMeets(candidates mask.Mask, needs []Need) bool {
	for id := range candidates.All() {
		one := mask.Of(id)
		if !slices.ContainsFunc(needs, func(n Need) bool { return n.Offered(one) < n.Amount }) {
			return true
		}
	}
	return false
}

// narrowest returns the size of the smallest mask of a set. If the upward closed part of the set
// has no mask, it returns false and the size of the smallest explicit mask.
func narrowest(in *search.Search, s *Set) (int, bool) {
	least := mask.MaxNode + 1
	for _, m := range s.Explicit {
		least = min(least, m.Len())
	}
	if s.Candidates == 0 {
		return least, false
	}
	if len(s.Touch) == 0 && len(s.Needs) == 0 && s.Candidates.Contains(s.Required) {
		return min(least, max(1, s.Required.Len())), true
	}
	in.Problem.Reset(s.Candidates)
	in.Problem.AddBin(s.Candidates&^s.Required, false)
	if !constrain(&in.Problem, s, s.Candidates) {
		return least, false
	}
	in.Problem.Finish()
	return in.Fewest(least), true
}

// constrain limits what the last bin can lose to what the upward closed part of the set can spare,
// if masks are cut from candidates. s.Required must be enforced by the bin itself. constrain
// returns false if not even all candidates together are a mask of the set.
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

// keepOneOf prevents all of nodes from being dropped into the last bin. NUMA nodes that are not
// part of the problem are never dropped. It returns false if nodes is empty.
func keepOneOf(p *search.Problem, nodes mask.Mask) bool {
	if !nodes.IsEmpty() && p.Nodes().Contains(nodes) {
		p.AddDimension(0)
		p.AddLoad(nodes, 1)
	}
	return !nodes.IsEmpty()
}

// spare adds a dimension for the amount that the candidates offer beyond the need. Offers are
// capped at the amount, which changes no answer and keeps the sums far from overflow. Beyond that,
// sums are capped at the largest int64. Amounts of exabytes may therefore be rejected but are never
// assigned twice.
func spare(p *search.Problem, n *Need, candidates mask.Mask) bool {
	if n.Amount <= 0 {
		return true
	}
	inside := p.Nodes() & candidates
	atStake := n.sum(inside)
	total := atStake
	if candidates != inside {
		total = search.Add(total, n.sum(candidates&^inside))
	}
	for _, s := range n.Shared {
		if touched := s.Nodes & candidates; touched != 0 {
			offer := min(max(s.Amount, 0), n.Amount)
			total = search.Add(total, offer)
			if p.Nodes().Contains(touched) {
				atStake = search.Add(atStake, offer)
			}
		}
	}
	slack := total - n.Amount
	if slack < 0 || atStake <= slack {
		return slack >= 0
	}
	loads := p.AddDimension(slack)
	for x := range inside.All() {
		loads[x] = min(n.offer(x), n.Amount)
	}
	for _, s := range n.Shared {
		if touched := s.Nodes & candidates; touched != 0 && p.Nodes().Contains(touched) {
			p.AddLoad(touched, min(max(s.Amount, 0), n.Amount))
		}
	}
	return true
}
