package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// hinted is one hint of the kubelet: a mask, or no mask if care is false, and whether it is
// preferred.
type hinted struct {
	mask      mask.Mask
	care      bool
	preferred bool
}

// literally implements the Topology Manager word for word. It lists the hints with every mask and
// compares every combination with the best one before it (R-HINT-51…63). It shares no code with
// Merge.
func literally(sets []Set, rules Rules) Choice {
	lists := listsOf(sets, rules)
	if rules.Policy == SingleNUMANode {
		for i, list := range lists {
			lists[i] = slices.DeleteFunc(slices.Clone(list), func(h hinted) bool {
				return !h.preferred || h.care && h.mask.Len() != 1
			})
		}
	}
	product := 1
	for _, list := range lists {
		product = min(product*len(list), 1<<30)
	}
	c := Choice{Mask: rules.Nodes, HasMask: true}
	if product <= 20_000 {
		c.Mask, c.Preferred = byProduct(lists, rules)
	} else {
		c.Mask, c.Preferred = byReach(lists, rules)
	}
	if rules.Policy == SingleNUMANode && c.Mask == rules.Nodes {
		c.HasMask = false
	}
	c.Admit = c.Preferred || rules.Policy == BestEffort
	return c
}

func listsOf(sets []Set, rules Rules) [][]hinted {
	var lists [][]hinted
	for _, f := range sets {
		var list []hinted
		for _, m := range allMasks(rules.Nodes) {
			if f.Kind == Fits && holds(f, m) {
				preferred := m.Len() == f.Preferred
				if f.Sockets != nil {
					on := 0
					for _, s := range f.Sockets.Sockets {
						if s&m != 0 {
							on++
						}
					}
					preferred = preferred || on == f.Sockets.Count
				}
				list = append(list, hinted{mask: m, care: true, preferred: preferred})
			}
		}
		if len(list) == 0 {
			list = []hinted{{preferred: f.Kind == Any}}
		}
		for range max(f.Copies, 1) {
			lists = append(lists, list)
		}
	}
	return lists
}

// holds implements the definition of Set without limits. It keeps sums per NUMA node, in steps that
// cannot overflow for the amounts in the tests.
func holds(f Set, m mask.Mask) bool {
	if slices.Contains(f.Explicit, m) {
		return true
	}
	if m&^f.Candidates != 0 || f.Required&^m != 0 {
		return false
	}
	for _, t := range f.Touch {
		if t&m == 0 {
			return false
		}
	}
	for _, n := range f.Needs {
		sum := int64(0)
		for id, offer := range n.Offer {
			if m.Has(id) {
				sum += offer
			}
		}
		for _, s := range n.Shared {
			if s.Nodes&m != 0 {
				sum += s.Amount
			}
		}
		if sum < n.Amount {
			return false
		}
	}
	return true
}

// allMasks lists the masks of R-HINT-3. Their order differs from the rule, which does not matter
// (R-HINT-56).
func allMasks(nodes mask.Mask) []mask.Mask {
	var all []mask.Mask
	for m := nodes; m != 0; m = (m - 1) & nodes {
		all = append(all, m)
	}
	return all
}

func byProduct(lists [][]hinted, rules Rules) (mask.Mask, bool) {
	narrowest := narrowestOf(lists)
	var best *hinted
	at := make([]int, len(lists))
	for {
		if slices.IndexFunc(lists, func(l []hinted) bool { return len(l) == 0 }) >= 0 {
			break
		}
		merged := hinted{mask: rules.Nodes, preferred: true}
		first := mask.Mask(0)
		for i, list := range lists {
			h := list[at[i]]
			merged.preferred = merged.preferred && h.preferred
			if h.care {
				merged.mask &= h.mask
				if first != 0 && first != h.mask {
					merged.preferred = false
				}
				first = h.mask
			}
		}
		if merged.mask != 0 && (best == nil || replaces(*best, merged, narrowest, rules)) {
			best = &merged
		}
		if !advance(at, lists) {
			break
		}
	}
	if best == nil {
		return rules.Nodes, false
	}
	return best.mask, best.preferred
}

func advance(at []int, lists [][]hinted) bool {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < len(lists[i]) {
			return true
		}
		at[i] = 0
	}
	return false
}

func narrowestOf(lists [][]hinted) int {
	widest := 0
	for _, list := range lists {
		least := 0
		for _, h := range list {
			if h.care && (least == 0 || h.mask.Len() < least) {
				least = h.mask.Len()
			}
		}
		widest = max(widest, least)
	}
	return widest
}

// replaces implements R-HINT-52 line by line.
func replaces(current, candidate hinted, wanted int, rules Rules) bool {
	if candidate.preferred != current.preferred {
		return candidate.preferred
	}
	if candidate.preferred {
		return fitter(current.mask, candidate.mask, rules)
	}
	c, k := current.mask.Len(), candidate.mask.Len()
	switch {
	case c > wanted:
		return fitter(current.mask, candidate.mask, rules)
	case c == wanted:
		return k == wanted && fitter(current.mask, candidate.mask, rules)
	case k > wanted:
		return false
	case k == wanted || k > c:
		return true
	case k < c:
		return false
	}
	return fitter(current.mask, candidate.mask, rules)
}

func fitter(current, candidate mask.Mask, rules Rules) bool {
	if rules.Distances == nil || rules.Policy == SingleNUMANode || current.Len() != candidate.Len() {
		return candidate.NarrowerThan(current)
	}
	a, b := average(rules.Distances, current), average(rules.Distances, candidate)
	if a != b {
		return b < a
	}
	return candidate < current
}

func average(distances [][]int, m mask.Mask) float64 {
	sum, pairs := 0.0, 0.0
	for _, i := range m.Nodes() {
		for _, j := range m.Nodes() {
			sum += float64(distances[i][j])
			pairs++
		}
	}
	return sum / pairs
}

// byReach replaces the product of all lists if that is large. It computes which intersections the
// lists so far can reach, and which masks are preferred in every list. Masks are squeezed to the
// positions of their NUMA nodes, so that they can be used as indexes.
func byReach(lists [][]hinted, rules Rules) (mask.Mask, bool) {
	full := 1<<rules.Nodes.Len() - 1
	reached, agreed := make([]bool, full+1), make([]bool, full+1)
	reached[full] = true
	for i := range agreed {
		agreed[i] = true
	}
	for _, list := range lists {
		next, preferred := make([]bool, full+1), make([]bool, full+1)
		for _, h := range list {
			if !h.care {
				next = reached
				for i := range agreed {
					preferred[i] = agreed[i] && h.preferred
				}
				break
			}
			m := squeeze(h.mask, rules.Nodes)
			preferred[m] = h.preferred && agreed[m]
			for r, ok := range reached {
				next[r&m] = next[r&m] || ok
			}
		}
		reached, agreed = next, preferred
	}
	var best *hinted
	wanted := narrowestOf(lists)
	for _, m := range allMasks(rules.Nodes) {
		at := squeeze(m, rules.Nodes)
		candidate := hinted{mask: m, preferred: agreed[at]}
		if reached[at] && (best == nil || replaces(*best, candidate, wanted, rules)) {
			best = &candidate
		}
	}
	if best == nil {
		return rules.Nodes, false
	}
	return best.mask, best.preferred
}

func squeeze(m, nodes mask.Mask) int {
	at := 0
	for i, id := range nodes.Nodes() {
		if m.Has(id) {
			at |= 1 << i
		}
	}
	return at
}
