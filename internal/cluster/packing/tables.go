package packing

import "slices"

// tables computes the best pattern of a kind of node.
type tables struct {
	grid    grid
	parts   []part // of all items
	wide    []wide // items without parts
	classes []class
	cell    *table
	// The table of the whole node has only the resources in coupled. It is nil without wide items.
	coupled []int
	node    *table
	// apart is set if all wide items have groups of cells for themselves. largest has the size of
	// the largest group by its number of cells.
	apart   bool
	cells   int
	largest []Size
	items   int
	entries []entry // of cell
	others  []entry // of node
}

// part is a part of an item. share is its part of the weight of the item.
type part struct {
	item  int
	share float64
	at    int // of its entry: parts of the same size have the same
}

type wide struct {
	item, at int
}

// class is a number of equal cells. state is that of their size.
type class struct {
	count, state int
	size         []int
}

// maxCoupled bounds the product of the states of the node and of a cell, over the coupled
// resources.
const maxCoupled = 4_000_000

// newTables returns tables with at most about so many states. up rounds up.
func newTables(nodes []Node, items []Item, kind, maxStates int, up bool) *tables {
	n := nodes[kind]
	t := &tables{items: len(items)}
	var sizes []Size
	for _, item := range items {
		switch need := item.On[kind]; {
		case need.Never:
		case len(need.Parts) > 0:
			sizes = append(sizes, need.Parts...)
		default:
			sizes = append(sizes, need.Whole)
		}
	}
	t.grid = newGrid(n.Cells, sizes, maxStates)
	t.grid.up = up && !t.grid.exact(sizes)
	for i, item := range items {
		t.add(i, item.On[kind], item.PerNode, n)
	}
	t.cell = newTable(t.grid.levels)
	for _, c := range n.Cells {
		size := t.grid.floor(c)
		k := slices.IndexFunc(t.classes, func(c class) bool { return slices.Equal(c.size, size) })
		if k < 0 {
			k, t.classes = len(t.classes), append(t.classes, class{size: size, state: t.cell.state(size)})
		}
		t.classes[k].count++
	}
	if len(t.wide) > 0 {
		t.apart = !slices.ContainsFunc(t.wide, func(w wide) bool { return items[w.item].On[kind].Apart == 0 })
		t.cells, t.largest = len(n.Cells), largestOf(n)
		t.couple(n)
	}
	return t
}

func (t *tables) add(i int, need Need, perNode int64, n Node) {
	switch {
	case need.Never:
	case len(need.Parts) == 0:
		at := position(&t.others, entry{size: t.grid.of(need.Whole), apart: need.Apart, of: own(i, perNode)})
		t.others[at].most += perNode
		t.wide = append(t.wide, wide{i, at})
	default:
		var all float64
		for _, s := range need.Parts {
			all += dominant(s, n)
		}
		for _, s := range need.Parts {
			share := 1 / float64(len(need.Parts))
			if all > 0 {
				share = dominant(s, n) / all
			}
			at := position(&t.entries, entry{size: t.grid.of(s), of: own(i, perNode)})
			t.entries[at].most += perNode
			t.parts = append(t.parts, part{i, share, at})
		}
	}
}

// own returns what distinguishes the entries of an item with a limit per node.
func own(item int, perNode int64) int {
	if perNode == 0 {
		return 0
	}
	return item + 1
}

// position returns the position of an entry, and adds it if there is none.
func position(entries *[]entry, of entry) int {
	k := slices.IndexFunc(*entries, func(e entry) bool {
		return e.apart == of.apart && e.of == of.of && slices.Equal(e.size, of.size)
	})
	if k < 0 {
		k, *entries = len(*entries), append(*entries, of)
	}
	return k
}

// manyUnsized is the largest limit of an entry without a size, so that sums of weights fit an
// int64.
const manyUnsized = 1 << 16

// dust calls use for each item of which an entry has no size and no limit that counts.
func (t *tables) dust(use func(item int)) {
	unlimited := func(e *entry) bool { return !e.sized() && (e.most == 0 || e.most > manyUnsized) }
	for _, p := range t.parts {
		if unlimited(&t.entries[p.at]) {
			use(p.item)
		}
	}
	for _, o := range t.wide {
		if unlimited(&t.others[o.at]) {
			use(o.item)
		}
	}
}

// dominant returns the largest share of a resource of the node.
func dominant(s Size, n Node) (most float64) {
	for r := range s {
		if n.Whole[r] > 0 {
			most = max(most, float64(s[r])/float64(n.Whole[r]))
		}
	}
	return most
}

// couple chooses the resources that wide items and parts share on the node: all, but the finest
// ones if the tables would be too large.
func (t *tables) couple(n Node) {
	whole := t.grid.floor(n.Whole)
	for r := range whole {
		t.coupled = append(t.coupled, r)
	}
	product := func() (states int) {
		states = 1
		for _, r := range t.coupled {
			states *= whole[r] + 1
			if !t.apart {
				states *= t.grid.levels[r]
			}
		}
		return states
	}
	for len(t.coupled) > 1 && product() > maxCoupled {
		finest := slices.MaxFunc(t.coupled, func(a, b int) int { return t.grid.levels[a] - t.grid.levels[b] })
		if finest == 0 { // CPUs are what wide items and parts compete for.
			finest = slices.MaxFunc(t.coupled[1:], func(a, b int) int { return t.grid.levels[a] - t.grid.levels[b] })
		}
		t.coupled = slices.DeleteFunc(t.coupled, func(r int) bool { return r == finest })
	}
	levels := make([]int, len(t.coupled))
	for k, r := range t.coupled {
		levels[k] = whole[r] + 1
	}
	t.node = newTable(levels)
	for i := range t.others {
		t.others[i].size = t.project(t.others[i].size)
	}
}

// project returns the coupled part of a size.
func (t *tables) project(size []int) []int {
	out := make([]int, len(t.coupled))
	for k, r := range t.coupled {
		out[k] = size[r]
	}
	return out
}

// best returns the largest weight that a node can hold, and a set of pods with this weight. A pod
// is counted in parts if its parts are.
func (t *tables) best(weights []int64, budget *int64) (most int64, pods []float64) {
	pods = make([]float64, t.items)
	chosen := t.weigh(weights)
	*budget -= t.cell.fill(t.entries)
	if t.node == nil {
		for _, c := range t.classes {
			most += int64(c.count) * t.cell.weights[c.state]
			t.count(chosen, c.state, float64(c.count), pods)
		}
		return most, pods
	}
	if t.apart {
		return t.bestApart(chosen, pods, budget)
	}
	*budget -= t.node.fill(t.others)
	w := t.spread(budget)
	full := len(t.node.weights) - 1
	at := 0
	for state := range t.node.weights { // The rest of the node is that of the parts.
		if sum := t.node.weights[state] + w.weights[full-state]; sum > most {
			most, at = sum, state
		}
	}
	t.node.packed(t.others, at, func(e int) { pods[chosen.wide[e]]++ })
	w.visit(full-at, func(cell int) { t.count(chosen, cell, 1, pods) })
	return most, pods
}

// choice has the part and the item of each entry: the one with the largest weight.
type choice struct {
	part []int
	wide []int
}

func (t *tables) weigh(weights []int64) choice {
	c := choice{make([]int, len(t.entries)), make([]int, len(t.others))}
	for i := range t.entries {
		t.entries[i].weight = -1
	}
	for i := range t.others {
		t.others[i].weight = -1
	}
	var rest int64
	for i, p := range t.parts { // The parts of an item weigh together what it weighs.
		if i == 0 || t.parts[i-1].item != p.item {
			rest = weights[p.item]
		}
		w := min(rest, int64(float64(weights[p.item])*p.share))
		if i == len(t.parts)-1 || t.parts[i+1].item != p.item {
			w = rest
		}
		rest -= w
		if w > t.entries[p.at].weight {
			t.entries[p.at].weight, c.part[p.at] = w, i
		}
	}
	for _, o := range t.wide {
		if w := weights[o.item]; w > t.others[o.at].weight {
			t.others[o.at].weight, c.wide[o.at] = w, o.item
		}
	}
	return c
}

// count adds the pods that are packed in a state of a cell.
func (t *tables) count(c choice, state int, times float64, pods []float64) {
	t.cell.packed(t.entries, state, func(e int) {
		p := t.parts[c.part[e]]
		pods[p.item] += p.share * times
	})
}

// most returns about how many pods of an item fit on a node.
func (t *tables) most(item int) (most float64) {
	for _, o := range t.wide {
		if o.item == item {
			whole := make([]int, len(t.coupled))
			for k := range whole {
				whole[k] = t.node.levels[k] - 1
			}
			return t.others[o.at].times(whole)
		}
	}
	for _, p := range t.parts {
		for _, c := range t.classes {
			if p.item == item {
				most += p.share * float64(c.count) * t.entries[p.at].times(c.size)
			}
		}
	}
	return most
}
