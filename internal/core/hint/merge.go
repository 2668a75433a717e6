package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultBudget is the number of steps that a search may take.
const DefaultBudget = 1_000_000

// MinSize is the smallest number of nodes of the universe that together offer every
// need; false where not even the whole universe does.
func MinSize(universe mask.Mask, needs []Need) (int, bool) {
	f := Family{Kind: Fits, Universe: universe, Needs: needs}
	best := 0
	for _, m := range submasks(universe) {
		if f.fits(m) && (best == 0 || m.Len() < best) {
			best = m.Len()
		}
	}
	return best, best > 0
}

// Merge chooses the mask on which all families agree best (R-HINT-50…63).
func Merge(families []Family, rules Rules) Choice {
	var lists []Family
	satisfiable := true
	for _, f := range families {
		switch {
		case f.Kind == None || f.IsEmpty():
			satisfiable = false
		case f.Kind == Fits:
			lists = append(lists, f)
		}
	}
	if rules.Policy == SingleNUMANode {
		return single(lists, satisfiable, rules)
	}
	best := Choice{Mask: rules.Nodes, HasMask: true, Preferred: satisfiable && len(lists) == 0}
	if len(lists) > 0 {
		if m, ok := enumerate(lists, satisfiable, rules); ok {
			best.Mask = m
			best.Preferred = satisfiable && allPrefer(lists, m)
		}
	}
	best.Admit = best.Preferred || rules.Policy == BestEffort
	return best
}

func allPrefer(lists []Family, m mask.Mask) bool {
	return !slices.ContainsFunc(lists, func(f Family) bool { return !f.Has(m) || !f.prefers(m) })
}

func single(lists []Family, satisfiable bool, rules Rules) Choice {
	best := Choice{Mask: rules.Nodes}
	if !satisfiable {
		return best
	}
	best.Preferred = len(lists) == 0
	for n := range rules.Nodes.All() {
		if m := mask.Of(n); len(lists) > 0 && allPrefer(lists, m) {
			best.Mask, best.Preferred = m, true
			break
		}
	}
	best.HasMask = best.Mask != rules.Nodes
	best.Admit = best.Preferred
	return best
}

func submasks(universe mask.Mask) []mask.Mask {
	var all []mask.Mask
	for m := universe; m != 0; m = (m - 1) & universe {
		all = append(all, m)
	}
	return all
}

func enumerate(lists []Family, satisfiable bool, rules Rules) (mask.Mask, bool) {
	reached := map[mask.Mask]bool{rules.Nodes: true}
	narrowest := 0
	for _, f := range lists {
		var members []mask.Mask
		smallest := 64
		for _, m := range submasks(rules.Nodes) {
			if f.Has(m) {
				members = append(members, m)
				smallest = min(smallest, m.Len())
			}
		}
		narrowest = max(narrowest, smallest)
		for range f.copies() {
			next := map[mask.Mask]bool{}
			for r := range reached {
				for _, m := range members {
					next[r&m] = true
				}
			}
			reached = next
		}
	}
	var best mask.Mask
	for m := range reached {
		if m != 0 && (best == 0 || better(m, best, lists, satisfiable, narrowest, rules)) {
			best = m
		}
	}
	return best, best != 0
}

func better(a, b mask.Mask, lists []Family, satisfiable bool, narrowest int, rules Rules) bool {
	pa, pb := satisfiable && allPrefer(lists, a), satisfiable && allPrefer(lists, b)
	if pa != pb {
		return pa
	}
	if !pa && a.Len() != b.Len() {
		return rank(a.Len(), narrowest) < rank(b.Len(), narrowest)
	}
	if a.Len() == b.Len() && rules.Distances != nil {
		if da, db := total(rules.Distances, a), total(rules.Distances, b); da != db {
			return da < db
		}
	}
	return a.NarrowerThan(b)
}

// rank orders counts: the narrowest, then those below it from high to low, then those
// above it from low to high (R-HINT-56).
func rank(count, narrowest int) int {
	if count > narrowest {
		return count
	}
	return narrowest - count
}

func total(distances [][]int, m mask.Mask) int {
	sum := 0
	for a := range m.All() {
		for b := range m.All() {
			sum += distances[a][b]
		}
	}
	return sum
}
