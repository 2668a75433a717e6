package packing

import (
	"fmt"
	"slices"
)

// maxKinds is the number of items up to which each has a weight of its own in the linear program. A
// step of the program takes the square of their number, so that a thousand would use up the budget
// long before the weights are good. More items are put into so many groups.
const maxKinds = 256

// bunch is a number of items of one sort: on every kind of node they have as many parts.
type bunch struct {
	items []int // positions
	// resource is the one in which the items differ most, on a kind of node. loss is how much of a
	// node the items have above the smallest of each resource, over all pods.
	kind, resource int
	loss           float64
}

// grouped returns at most about most items, each of which is as small as the smallest of a group in
// every resource, and for each item the position of its group. A bound for them is one for the
// items: in place of each pod there is one that takes no more.
func grouped(nodes []Node, items []Item, most int) (out []Item, at []int) {
	limits := 0
	for i := range items {
		if items[i].PerNode > 0 {
			limits++
		}
	}
	bySort := map[string]int{}
	var groups []bunch
	for i := range items {
		key := sortOf(&items[i])
		if items[i].PerNode > 0 && limits <= most/2 {
			key += fmt.Sprint(i)
		}
		k, known := bySort[key]
		if !known {
			k = len(groups)
			bySort[key], groups = k, append(groups, bunch{})
		}
		groups[k].items = append(groups[k].items, i)
	}
	for k := range groups {
		groups[k].measure(nodes, items)
	}
	for len(groups) > 0 && len(groups) < most {
		k := 0
		for i := range groups {
			if groups[i].loss > groups[k].loss {
				k = i
			}
		}
		if groups[k].loss == 0 {
			break
		}
		low, high := groups[k].split(items)
		low.measure(nodes, items)
		high.measure(nodes, items)
		groups[k] = low
		groups = append(groups, high)
	}
	at = make([]int, len(items))
	for k, g := range groups {
		out = append(out, g.smallest(items))
		for _, i := range g.items {
			at[i] = k
		}
	}
	return out, at
}

// sortOf returns a text that is the same for items that can be in one group.
func sortOf(item *Item) string {
	var key []byte
	for k := range item.On {
		n := &item.On[k]
		key = fmt.Append(key, n.Never, len(n.Parts), n.Apart, " ")
	}
	return string(key)
}

// measure sets in which resource the items differ most, and their loss.
func (g *bunch) measure(nodes []Node, items []Item) {
	g.loss = 0
	for k := range nodes {
		if items[g.items[0]].On[k].Never {
			continue
		}
		for r, whole := range nodes[k].Whole {
			least := items[g.items[0]].On[k].of(r)
			for _, i := range g.items {
				least = min(least, items[i].On[k].of(r))
			}
			var sum float64
			for _, i := range g.items {
				sum += float64(items[i].On[k].of(r)-least) / float64(max(1, whole)) * float64(items[i].Count)
			}
			if sum > g.loss {
				g.loss, g.kind, g.resource = sum, k, r
			}
		}
	}
}

// split divides a group where the loss of both halves together is least.
func (g *bunch) split(items []Item) (low, high bunch) {
	size := func(i int) int64 { return items[i].On[g.kind].of(g.resource) }
	slices.SortStableFunc(g.items, func(a, b int) int { return int(min(1, max(-1, size(a)-size(b)))) })
	// The items from a cut on no longer lose the step from the smallest size to that of the cut.
	cut, best, first := 1, -1.0, size(g.items[0])
	var after float64
	for k := len(g.items) - 1; k > 0; k-- {
		after += float64(items[g.items[k]].Count)
		if gain := after * float64(size(g.items[k])-first); gain > best {
			cut, best = k, gain
		}
	}
	return bunch{items: g.items[:cut:cut]}, bunch{items: g.items[cut:]}
}

// smallest returns an item with all pods of the group that is nowhere larger than any of them.
func (g *bunch) smallest(items []Item) Item {
	first := &items[g.items[0]]
	out := Item{}
	if len(g.items) == 1 {
		out.PerNode = first.PerNode
	}
	for k := range first.On {
		n := Need{Never: first.On[k].Never, Apart: first.On[k].Apart, Whole: slices.Clone(first.On[k].Whole)}
		for _, p := range first.On[k].Parts {
			n.Parts = append(n.Parts, slices.Clone(p))
		}
		for _, i := range g.items {
			o := &items[i].On[k]
			n.Whole.lower(o.Whole)
			for j := range n.Parts {
				n.Parts[j].lower(o.Parts[j])
			}
		}
		out.On = append(out.On, n)
	}
	for _, i := range g.items {
		out.Count += items[i].Count
	}
	return out
}

// lower makes every amount at most that of another size.
func (s Size) lower(o Size) {
	for r := range s {
		s[r] = min(s[r], o[r])
	}
}

// solveGroups solves the program for about most groups of the items, and gives the items weights
// from that. Then it solves the program for the items, as far as the budget allows.
func (p *program) solveGroups(most int, stop func() bool) Result {
	groups, at := grouped(p.nodes, p.items, most)
	sums, fine := p.sums(), p.tables[0]
	best := sums
	half := p.budget / 2
	p.budget -= half
	g := bound(p.nodes, groups, &half, len(groups), stop)
	p.budget += max(0, half)
	for _, weights := range [][]int64{p.alike(at, &g), p.extended(groups, at, &g)} {
		r := Result{Weights: weights, Per: make([]int64, len(p.nodes))}
		if p.weigh(fine, &r); r.Price > best.Price {
			best = r
		}
	}
	if len(p.items) <= maxTrades && p.budget > 0 && !stop() {
		p.addCoarse()
		all, whole := p.solve(sums, stop)
		if whole {
			return all
		}
		if all.Price > best.Price {
			best = all
		}
	}
	best.Optimal, best.Mix, best.Grouped = g.Optimal, g.Mix, true
	return best
}

// alike gives each item the weight of its group.
func (p *program) alike(at []int, g *Result) []int64 {
	weights := make([]int64, len(p.items))
	for i, k := range at {
		weights[i] = g.Weights[k]
	}
	return weights
}

// extended gives each part of an item the largest weight of parts of groups that fit into it, on
// the kind of node where that is least: what fits into the parts of items also fits into their
// cells, so that a node does not weigh more than before. It is at least the weight of its group,
// but for rounding.
func (p *program) extended(groups []Item, at []int, g *Result) []int64 {
	weights := p.alike(at, g)
	all := make([]*tables, len(p.nodes))
	for k := range p.nodes {
		all[k] = newTables(p.nodes, groups, k, fineStates, false)
		all[k].weigh(g.Weights)
		p.budget -= all[k].cell.fill(all[k].entries)
	}
	for i := range p.items {
		least, found := int64(0), false
		for k, t := range all {
			need := &p.items[i].On[k]
			if need.Never {
				continue
			}
			var sum int64
			for _, part := range need.Parts {
				sum += t.cell.weights[t.cell.state(t.grid.floor(part))]
			}
			if !found || sum < least {
				least, found = sum, true
			}
		}
		weights[i] = max(weights[i], least)
	}
	return weights
}
