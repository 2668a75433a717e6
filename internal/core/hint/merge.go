package hint

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultBudget is the number of steps that one Merge may take. The machines of the
// benchmarks need tens to thousands, and some hundred thousand for the closest of many
// unequal memory nodes; a million takes a few tenths of a second, which an admission can
// bear, while without a bound the worst case is exponential. Steps are counted and not
// time, so that the same input has the same answer everywhere.
const DefaultBudget = 1_000_000

// merger is one Merge.
type merger struct {
	search
	rules Rules
	// lists are the families that have masks, cut to the machine.
	lists []Family
	// best is the fittest mask so far.
	best mask.Mask
	// In phase N: wanted is the count that is best (B of R-HINT-52), and up the number of
	// copies of each list that choose from its part that is closed upwards.
	wanted int
	up     []int
	near   nearness
}

// Merge chooses the mask on which all families agree best (R-HINT-50…63), exactly as if
// every combination of their masks were compared. The order of the families does not
// matter. NUMA nodes outside rules.Nodes are ignored. The families are only read.
func Merge(families []Family, rules Rules) Choice {
	return newMerger(rules).merge(families)
}

func newMerger(rules Rules) *merger {
	m := &merger{rules: rules}
	if m.budget = rules.Budget; m.budget <= 0 {
		m.budget = DefaultBudget
	}
	m.near.search, m.near.distances, m.near.patience = &m.search, rules.Distances, patience
	return m
}

func (m *merger) merge(families []Family) Choice {
	c := Choice{Mask: m.rules.Nodes}
	policy := m.rules.Policy
	satisfiable := m.take(families)
	switch {
	case len(m.lists) == 0:
		c.Preferred = satisfiable
	case policy == SingleNUMANode:
		if n := m.single(); satisfiable && n != 0 {
			c.Mask, c.Preferred = n, true
		}
	default:
		m.decide(&c, satisfiable)
	}
	c.Steps = m.steps
	c.HasMask = policy != SingleNUMANode || c.Mask != m.rules.Nodes
	c.Admit = c.Preferred || policy == BestEffort
	return c
}

// take makes the lists; false when a family cannot be satisfied.
func (m *merger) take(families []Family) bool {
	satisfiable := true
	for i := range families {
		if families[i].Kind == Any {
			continue
		}
		f := families[i].within(m.rules.Nodes)
		if f.Kind != Fits || f.IsEmpty() {
			satisfiable = false
			continue
		}
		if m.lists == nil {
			m.lists = make([]Family, 0, len(families)-i)
		}
		m.lists = append(m.lists, f)
	}
	return satisfiable
}

// single is the lowest node that alone is preferred by all (R-HINT-63).
func (m *merger) single() mask.Mask {
	for n := range m.rules.Nodes.All() {
		if m.allPrefer(mask.Of(n)) {
			return mask.Of(n)
		}
	}
	return 0
}

func (m *merger) allPrefer(a mask.Mask) bool {
	return !slices.ContainsFunc(m.lists, func(f Family) bool { return !f.Prefers(a) || !f.Has(a) })
}

// decide runs phase P, and N where it is still of use: restricted refuses whatever is
// not preferred, so that it needs no mask.
func (m *merger) decide(c *Choice, satisfiable bool) {
	if satisfiable {
		m.prefer()
	}
	c.Preferred = m.best != 0
	if !c.Preferred && !m.over && m.rules.Policy == BestEffort {
		m.agree()
	}
	switch {
	case m.best != 0:
		c.Mask, c.Unproven = m.best, m.over
	case m.over:
		c.Unsolved, c.Why = true, m.where(satisfiable && m.wanted == 0)
	}
}

// where says in words at which point the budget ended.
func (m *merger) where(preferred bool) string {
	kind := "an aligned"
	if preferred {
		kind = "a preferred"
	}
	text := fmt.Sprintf("the search for %s mask ended after %d steps, at masks of %d of the NUMA nodes %v",
		kind, m.steps, m.query.size, m.problem.nodes)
	if len(m.near.classes) > 0 {
		text += fmt.Sprintf(", with %d classes of distance", len(m.near.classes))
	}
	return text
}

// consider makes a the best mask if it is fitter (R-HINT-53); counts may differ.
func (m *merger) consider(a mask.Mask) {
	if a == 0 {
		return
	}
	if m.best != 0 && a.Len() == m.best.Len() && m.rules.Distances != nil {
		if x, y := spread(m.rules.Distances, a), spread(m.rules.Distances, m.best); x != y {
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

// fittest considers the fittest mask of this size that answers m.problem.
func (m *merger) fittest(size int) {
	if m.rules.Distances == nil {
		m.consider(m.smallest(query{size: size}))
		return
	}
	m.closest(size)
}
