package hint

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint/search"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultBudget is the number of steps that one Merge may take. The machines of the benchmarks need
// tens to thousands of steps. Finding the closest of many unequal memory nodes takes tens of
// thousands. A million steps take 0.3 s on these machines and up to 3 s if 64 NUMA nodes all differ
// in several resources. Without a limit, the worst case is exponential. The budget counts steps
// instead of time, so that the same input has the same answer everywhere.
const DefaultBudget = 1_000_000

// merger is the state of one Merge.
type merger struct {
	// Search takes 2.5 KiB. It is nil if a single NUMA node is the answer or if no set has a
	// preference.
	*search.Search
	rules Rules
	// sets has the sets of all kinds but Any that have masks, cut to the machine.
	sets []Set
	// best is the fittest mask so far.
	best mask.Mask
	// wanted and closed are for the second phase. wanted is the best size (B of R-HINT-52). closed
	// is the number of copies of each set that choose a mask from its upward closed part.
	wanted int
	closed []int
	// refining is true if the size is known and the fittest mask of that size is searched.
	refining bool
}

// Merge chooses the mask on which all sets agree best (R-HINT-50…63), exactly as if every
// combination of their masks were compared. The order of the sets does not matter. NUMA nodes
// outside rules.Nodes are ignored. The sets are only read.
func Merge(sets []Set, rules Rules) Choice {
	c := Choice{Mask: rules.Nodes}
	if rules.Policy == SingleNUMANode {
		c.alone(sets, rules.Nodes)
		return c
	}
	m := merger{rules: rules}
	if m.single(sets); m.best != 0 {
		c.Mask, c.Preferred = m.best, true
	} else {
		m.merge(&c, sets)
	}
	c.HasMask = true
	c.Admit = c.Preferred || rules.Policy == BestEffort // R-HINT-62, and R-HINT-61 for best-effort
	return c
}

// single sets m.best to the fittest single NUMA node that every set has and prefers. Most pods fit
// on one and need no search. m.best remains 0 if there is no such NUMA node or if no set has a
// preference.
//
// The result is the mask that the merge chooses. Every list has the mask and prefers it, so some
// combination gives it and is preferred, and a preferred result is better than any other
// (R-HINT-51). Of preferred results, the narrower is better (R-HINT-53), and no mask has fewer than
// one NUMA node. Only single NUMA nodes remain to be compared, as consider does. Cutting the sets
// to the machine removes no mask that is on the machine. single adds no amounts of several NUMA
// nodes, so it is exact even if the sums of the search are capped at the largest int64.
func (m *merger) single(sets []Set) {
	asked := false
	for i := range sets {
		if s := &sets[i]; s.Kind == None || s.Kind == Fits && s.Sockets == nil && s.Preferred != 1 {
			return
		}
		asked = asked || sets[i].Kind == Fits
	}
	if !asked {
		return
	}
	for n := range m.rules.Nodes.All() {
		if one := mask.Of(n); allPrefer(sets, one) {
			m.consider(one)
			if m.rules.Distances == nil {
				return // All others are higher.
			}
		}
	}
}

// merge runs both phases for Merge.
func (m *merger) merge(c *Choice, sets []Set) {
	satisfiable := m.read(sets)
	if len(m.sets) == 0 {
		c.Preferred = satisfiable
		return
	}
	m.decide(c, satisfiable)
}

// alone chooses the lowest NUMA node that all sets prefer on its own (R-HINT-63).
func (c *Choice) alone(sets []Set, nodes mask.Mask) {
	if !slices.ContainsFunc(sets, func(s Set) bool { return s.Kind != Any }) {
		c.Preferred, c.Admit = true, true
		return
	}
	for n := range nodes.All() {
		if one := mask.Of(n); allPrefer(sets, one) {
			c.Mask, c.Preferred, c.Admit, c.HasMask = one, true, true, one != nodes
			return
		}
	}
}

// allPrefer reports whether every set that has a preference has mask a and prefers it.
func allPrefer(sets []Set, a mask.Mask) bool {
	for i := range sets {
		s := &sets[i]
		switch {
		case s.Kind == Any:
		case s.Kind == None, !s.fits(a) && !slices.Contains(s.Explicit, a), !s.Prefers(a): // The same as Has, but without copying the Set.
			return false
		}
	}
	return true
}

// read fills m.sets. It returns false if a set cannot be satisfied.
func (m *merger) read(sets []Set) bool {
	satisfiable := true
	for i := range sets {
		if sets[i].Kind == Any {
			continue
		}
		s := sets[i].within(m.rules.Nodes)
		if s.Kind != Fits || s.IsEmpty() {
			satisfiable = false
			continue
		}
		if m.sets == nil {
			m.sets = make([]Set, 0, len(sets)-i)
		}
		m.sets = append(m.sets, s)
	}
	return satisfiable
}

// decide runs the first phase, and the second one if it can still matter. Restricted rejects every
// mask that is not preferred, so it needs no second phase.
func (m *merger) decide(c *Choice, satisfiable bool) {
	m.Search = &search.Search{Budget: m.rules.Budget}
	if m.Budget <= 0 {
		m.Budget = DefaultBudget
	}
	if satisfiable {
		m.prefer()
	}
	c.Preferred = m.best != 0
	if !c.Preferred && !m.Over() && m.rules.Policy == BestEffort {
		m.agree()
	}
	c.Steps = m.Steps()
	switch {
	case m.best != 0:
		c.Mask, c.Unproven = m.best, m.Over()
	case m.Over():
		kind := "an aligned"
		if satisfiable && m.wanted == 0 {
			kind = "a preferred"
		}
		c.Unsolved = true
		c.Why = fmt.Sprintf("the search for %s mask ended after %d steps, at masks of %d of the NUMA nodes %v",
			kind, m.Steps(), m.Size(), m.Problem.Nodes())
	}
}

// consider makes a the best mask if it is fitter than m.best (R-HINT-53). Their sizes may differ.
func (m *merger) consider(a mask.Mask) {
	if a == 0 {
		return
	}
	if d := search.Distances(m.rules.Distances); d != nil && a.Len() == m.best.Len() {
		if x, y := d.Sum(a), d.Sum(m.best); x != y {
			if x < y {
				m.best = a
			}
			return
		}
	}
	if m.best == 0 || a.NarrowerThan(m.best) {
		m.best = a
	}
}

// considerFittest considers the fittest mask with size NUMA nodes that answers m.Problem.
func (m *merger) considerFittest(size int) {
	switch {
	case m.rules.Distances == nil:
		m.consider(m.Lowest(size))
	case m.best.Len() == size:
		m.consider(m.Closest(size, m.rules.Distances, m.best))
	default:
		m.consider(m.Closest(size, m.rules.Distances, 0))
	}
}
