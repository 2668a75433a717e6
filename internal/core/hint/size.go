package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

// MinSize is the smallest number of NUMA nodes of the universe that together meet every
// need, and false where not even the whole universe does; at least 1. All needs count at
// once: where each of two nodes meets one of two needs, the size is 2.
//
// It is exact unless DefaultBudget steps are not enough, which takes dozens of NUMA nodes
// that differ in several resources; then it is a size that the answer is not below.
func MinSize(universe mask.Mask, needs []Need) (int, bool) {
	f := Family{Kind: Fits, Universe: universe, Needs: needs}
	if !f.fits(universe) {
		return 0, false
	}
	s := search{budget: DefaultBudget}
	return s.narrowest(&f), true
}

// narrowest is the size of the smallest mask of a family that is cut and not empty.
func (s *search) narrowest(f *Family) int {
	least := mask.MaxNode + 1
	for _, m := range f.Explicit {
		least = min(least, m.Len())
	}
	if f.Universe == 0 {
		return least
	}
	p := &s.problem
	p.reset(f.Universe)
	p.openBin(false)
	p.constrain(f, f.Universe)
	p.finish()
	size := p.fewest()
	if len(p.slack) == 1 && len(p.groups) == 0 {
		return min(size, least)
	}
	for ; size < least; size++ {
		if _, ok := s.feasible(query{size: size}); ok || s.over {
			return size
		}
	}
	return least
}
