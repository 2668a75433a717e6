package packing

import "slices"

// groups has the largest weight of wide items on cells that are divided into groups.
type groups struct {
	// of has the pods of a group, as counts of entries, by the number of its cells. one has their
	// weight.
	of  [][]int
	one []int64
	// weights is by the number of cells of all groups. last has the number of cells of the last
	// group, or 1 if the last cell is in none.
	weights []int64
	last    []int
}

// bestApart is best if all wide items have groups of cells for themselves.
func (t *tables) bestApart(chosen choice, pods []float64, budget *int64) (most int64, _ []float64) {
	g := t.groups(budget)
	best := 0
	for n := range g.weights { // The cells that are worth least for parts are in groups.
		if w := g.weights[n] + t.without(n, nil); w > most {
			most, best = w, n
		}
	}
	t.without(best, func(c class, left int) { t.count(chosen, c.state, float64(left), pods) })
	for n := best; n > 1; n -= g.last[n] {
		for e, count := range g.of[g.last[n]] {
			pods[chosen.wide[e]] += float64(count)
		}
	}
	return most, pods
}

// without returns the largest weight of parts on the cells but n, and calls use for the cells that
// are left.
func (t *tables) without(n int, use func(c class, left int)) (sum int64) {
	order := slices.Clone(t.classes)
	slices.SortStableFunc(order, func(a, b class) int {
		return int(max(-1, min(1, t.cell.weights[a.state]-t.cell.weights[b.state])))
	})
	for _, c := range order {
		taken := min(n, c.count)
		n -= taken
		sum += int64(c.count-taken) * t.cell.weights[c.state]
		if use != nil && c.count > taken {
			use(c, c.count-taken)
		}
	}
	return sum
}

// groups fills the table of the node for the items of each width.
func (t *tables) groups(budget *int64) groups {
	g := groups{of: make([][]int, t.cells+1), one: make([]int64, t.cells+1), weights: make([]int64, t.cells+1), last: make([]int, t.cells+1)}
	for n := 2; n <= t.cells; n++ {
		some := slices.Clone(t.others)
		for i := range some {
			if some[i].apart != n {
				some[i].weight = 0
			}
		}
		if !slices.ContainsFunc(some, func(e entry) bool { return e.weight > 0 }) {
			continue
		}
		*budget -= t.node.fill(some)
		state := t.node.state(t.project(t.grid.floor(t.largest[n])))
		g.one[n], g.of[n] = t.node.weights[state], make([]int, len(some))
		t.node.packed(some, state, func(e int) { g.of[n][e]++ })
	}
	for n := 1; n <= t.cells; n++ {
		g.weights[n], g.last[n] = g.weights[n-1], 1
		for last := 2; last <= n; last++ {
			if w := g.weights[n-last] + g.one[last]; w > g.weights[n] {
				g.weights[n], g.last[n] = w, last
			}
		}
	}
	return g
}

// largestOf returns a size that any n of the cells do not exceed, by n.
func largestOf(n Node) (sums []Size) {
	sums = make([]Size, len(n.Cells)+1)
	for k := range sums {
		sums[k] = make(Size, len(n.Whole))
	}
	for r := range n.Whole {
		var all []int64
		for _, c := range n.Cells {
			all = append(all, c[r])
		}
		slices.Sort(all)
		for k := 1; k < len(sums); k++ {
			sums[k][r] = min(n.Whole[r], sums[k-1][r]+all[len(all)-k])
		}
	}
	return sums
}
