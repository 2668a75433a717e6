// Package packing computes how few nodes can be enough for pods, whatever the placement is, and
// what each pod is worth for that.
//
// # The bound
//
// Give every pod a weight. If no node can hold pods with a total weight above M, then n nodes hold
// at most n·M, so the pods need at least (sum of all weights)/M nodes. Any weights give a true
// bound. Good weights give a good one: they are large for pods that fit badly beside others. The
// sum of the CPUs is the bound of one particular choice, in which the weight is the number of CPUs.
//
// Weights are whole numbers, and so is M, which Bound computes exactly. No rounding error can make
// the bound too large.
//
// # What a node can hold
//
// A node consists of cells, its NUMA nodes. A pod has parts, each of which is within one cell; or
// it has none, and counts only against the whole node. M is the largest weight of any set of parts
// and pods that fit:
//
//   - on each cell, the sizes of the parts are at most the size of the cell, in every resource;
//   - on the node, the sizes of the pods without parts and of all parts are at most the size of the
//     node, in every resource but those that are too fine to count twice, such as memory;
//   - pods that take cells for themselves have groups of two cells or more. Two groups have no cell
//     in common, and parts are on the other cells;
//   - of an item with a limit per node, a node with one cell has at most as many pods as the limit
//     allows.
//
// Tables of a node with several cells would need a state for every limit. So if items have limits,
// a second bound is computed for nodes whose cells are one. Such a node can do everything that the
// node can do, so this bound is true as well, and the better of the two counts. It is at least the
// number of pods divided by the limit.
//
// A node can do less than that: a node decides by itself which cell a part is on, and parts of a
// pod need not be together here. So the true M is at most this one, and the bound is still true.
// Amounts are rounded to a grid for the same reason only downwards, and only if an exact table
// would be too large. Pods that are so small that nothing is left of them do not count: any number
// of them would fit.
//
// # The weights
//
// Weights come from a linear program: the fewest patterns, each a set of pods that a node can hold,
// that contain all pods, where parts of patterns are allowed. Its dual prices are the best weights.
// There are too many patterns to list, so the program begins with a few, and each step adds the
// pattern that is worth most at the present prices (column generation, as in Gilmore and Gomory, "A
// Linear Programming Approach to the Cutting-Stock Problem", 1961). Each step gives a true bound.
// The best one counts. A budget of steps of the tables ends the search, so that the same input
// gives the same answer on every machine.
package packing

import (
	"math"
	"slices"
)

// Size has an amount of each resource of a problem, in any unit. All sizes of a problem have the
// same resources in the same order.
type Size []int64

// Node is a kind of node.
type Node struct {
	// Price is what a node costs. It must be positive.
	Price float64
	// Cells are the sizes of the NUMA nodes, and Whole that of the node.
	Cells []Size
	Whole Size
}

// Need is what a pod needs on a kind of node.
type Need struct {
	// Never is set if no node of the kind takes the pod.
	Never bool
	// Parts are each within one cell. Whole counts if there are none.
	Parts []Size
	Whole Size
	// Apart is set for a pod without parts that has a group of so many cells, at least two. Other
	// pods that are on these cells have the same group, and no parts are there.
	Apart int
}

// Item is a number of equal pods.
type Item struct {
	Count int64
	// PerNode is how many of the pods a node has at most. 0 means that there is no limit.
	PerNode int64
	// On is parallel to the nodes. A node of at least one kind takes the pod.
	On []Need
}

// Result is a bound with its weights.
type Result struct {
	// Price is a price that no set of nodes with room for all pods is below. With the price 1 it is
	// the number of nodes before rounding up.
	Price float64
	// Weights are parallel to the items. Per is the largest total weight that a node of each kind
	// can hold.
	Weights []int64
	Per     []int64
	// Optimal is the price of the best parts of patterns that were found. The best bound of this
	// kind is not above it, unless Grouped is set.
	Optimal float64
	// Mix has the number of nodes of each kind in these patterns.
	Mix []float64
	// Grouped is set if there were too many items for weights of their own. The bound is then true,
	// but not the best: Optimal and Mix come from groups, whose pods all count as the smallest of
	// their group.
	Grouped bool
}

// unit is the weight of a price of 1. Totals of 2^23 prices fit an int64.
const unit = 1 << 40

// Budget is the usual number of steps of the tables: one or two seconds, and about twice
// that if items have limits.
const Budget = 1_500_000_000

// Bound returns a bound. It ends when the budget is used up, when the bound cannot grow by a whole
// price any more, or when stop returns true.
func Bound(nodes []Node, items []Item, budget int64, stop func() bool) Result {
	return boundOf(nodes, items, budget, maxKinds, stop)
}

// boundOf is Bound with groups for more than most items.
func boundOf(nodes []Node, items []Item, budget int64, most int, stop func() bool) Result {
	limited := func(i Item) bool { return i.PerNode > 0 }
	divided := func(n Node) bool { return len(n.Cells) > 1 }
	if !slices.ContainsFunc(items, limited) || !slices.ContainsFunc(nodes, divided) {
		return bound(nodes, items, &budget, most, stop)
	}
	free := slices.Clone(items)
	for i := range free {
		free[i].PerNode = 0
	}
	whole := make([]Node, len(nodes))
	for k, n := range nodes {
		whole[k] = Node{Price: n.Price, Cells: []Size{n.Whole}, Whole: n.Whole}
	}
	as := make([]Item, len(items))
	for i, item := range items {
		as[i] = Item{Count: item.Count, PerNode: item.PerNode}
		for _, need := range item.On {
			as[i].On = append(as[i].On, need.together())
		}
	}
	half := budget / 2
	r, other := bound(nodes, free, &budget, most, stop), bound(whole, as, &half, most, stop)
	if other.Price > r.Price {
		return other
	}
	return r
}

// together returns the need on a node whose cells are one.
func (n *Need) together() Need {
	sum := make(Size, len(n.Whole))
	for resource := range sum {
		sum[resource] = n.of(resource)
	}
	return Need{Never: n.Never, Parts: []Size{sum}, Whole: sum}
}

// bound is Bound for nodes as they are. More than most items are grouped. It leaves what is left of
// the budget.
func bound(nodes []Node, all []Item, budget *int64, most int, stop func() bool) Result {
	items, at := merged(all)
	nodes = slices.Clone(nodes)
	dearest := 0.0
	for _, n := range nodes {
		dearest = max(dearest, n.Price)
	}
	for k := range nodes {
		nodes[k].Price /= dearest // So that weights are at most about unit.
	}
	fine, kept := withoutDust(nodes, items)
	p := &program{nodes: nodes, budget: *budget, tables: [][]*tables{fine}}
	for _, i := range kept {
		p.items = append(p.items, items[i])
	}
	var r Result
	if len(p.items) > most {
		r = p.solveGroups(most, stop)
	} else {
		p.addCoarse()
		r, _ = p.solve(p.sums(), stop)
	}
	*budget = p.budget
	r.Price, r.Optimal = r.Price*dearest, r.Optimal*dearest
	weights := make([]int64, len(at))
	for i, k := range at {
		if k, counts := slices.BinarySearch(kept, k); counts {
			weights[i] = r.Weights[k]
		}
	}
	r.Weights = weights
	return r
}

// addCoarse adds the tables that come before the fine ones.
func (p *program) addCoarse() {
	fine := p.tables[0]
	p.tables = nil
	for _, states := range states[:len(states)-1] {
		var level []*tables
		for k := range p.nodes {
			level = append(level, newTables(p.nodes, p.items, k, states, true))
		}
		p.tables = append(p.tables, level)
	}
	p.tables = append(p.tables, fine)
}

// withoutDust returns fine tables, by kind, and the positions of the items that they have, in
// order. An item is left out if one of its sizes is rounded down to nothing, because a table has no
// limit for it.
func withoutDust(nodes []Node, items []Item) (fine []*tables, kept []int) {
	for i := range items {
		kept = append(kept, i)
	}
	for {
		some := make([]Item, len(kept))
		for k, i := range kept {
			some[k] = items[i]
		}
		fine = nil
		dust := map[int]bool{}
		for k := range nodes {
			t := newTables(nodes, some, k, fineStates, false)
			t.dust(func(i int) { dust[kept[i]] = true })
			fine = append(fine, t)
		}
		if len(dust) == 0 {
			return fine, kept
		}
		kept = slices.DeleteFunc(kept, func(i int) bool { return dust[i] })
	}
}

// merged returns the items with equal ones merged, and for each item its position among them. Items
// with a limit per node stay apart.
func merged(items []Item) (out []Item, at []int) {
	for _, item := range items {
		k := -1
		if item.PerNode == 0 {
			k = slices.IndexFunc(out, func(o Item) bool { return o.PerNode == 0 && slices.EqualFunc(o.On, item.On, Need.equal) })
		}
		if k < 0 {
			k, out = len(out), append(out, Item{On: item.On, PerNode: item.PerNode})
		}
		out[k].Count += max(0, item.Count)
		at = append(at, k)
	}
	return out, at
}

func (n Need) equal(o Need) bool {
	return n.Never == o.Never && n.Apart == o.Apart && slices.Equal(n.Whole, o.Whole) && slices.EqualFunc(n.Parts, o.Parts, slices.Equal[Size])
}

// Nodes returns the bound as a number of nodes, for one kind with the price 1. It divides whole
// numbers, so that it is exact.
func (r *Result) Nodes(items []Item) int {
	var sum int64
	for i, item := range items {
		sum += r.Weights[i] * max(0, item.Count)
	}
	if r.Per[0] <= 0 {
		return 0
	}
	return int((sum + r.Per[0] - 1) / r.Per[0])
}

// of returns what a pod needs of a resource.
func (n *Need) of(resource int) (sum int64) {
	if len(n.Parts) == 0 {
		return n.Whole[resource]
	}
	for _, s := range n.Parts {
		sum += s[resource]
	}
	return sum
}

// Fits reports whether a pod fits on a node: each part within a cell, and the pod within the node.
func (n *Need) Fits(node *Node) bool {
	within := func(size, room Size) bool {
		for r, x := range size {
			if x > room[r] {
				return false
			}
		}
		return true
	}
	for _, part := range n.Parts {
		if !slices.ContainsFunc(node.Cells, func(c Size) bool { return within(part, c) }) {
			return false
		}
	}
	return !n.Never && within(n.Whole, node.Whole)
}

// priceOf returns the bound for weights, rounded down.
func (p *program) priceOf(weights, per []int64) float64 {
	var sum int64
	for i, item := range p.items {
		sum += weights[i] * item.Count
	}
	least := math.Inf(1) // price of a unit of weight
	for k, n := range p.nodes {
		if per[k] > 0 {
			least = min(least, n.Price/float64(per[k]))
		}
	}
	if sum == 0 || math.IsInf(least, 1) {
		return 0
	}
	return float64(sum) * least * (1 - 1e-12) // Three roundings of 2^-53 each.
}
