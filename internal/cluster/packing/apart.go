package packing

// bestApart is best if all wide items take cells for themselves. It tries every number of cells of
// each class for them.
func (t *tables) bestApart(chosen choice, pods []float64) (most int64, _ []float64) {
	taken := make([]int, len(t.classes))
	best := make([]int, len(taken))
	for {
		if w := t.divided(taken); w > most {
			most = w
			copy(best, taken)
		}
		k := 0
		for ; k < len(taken); k++ { // The next combination.
			if taken[k]++; taken[k] <= t.classes[k].count {
				break
			}
			taken[k] = 0
		}
		if k == len(taken) {
			break
		}
	}
	for k, c := range t.classes {
		t.count(chosen, c.state, float64(c.count-best[k]), pods)
	}
	t.node.packed(t.others, t.stateOf(best), func(e int) { pods[chosen.wide[e]]++ })
	return most, pods
}

// divided returns the largest weight with so many cells of each class for wide items. One cell is
// not enough for any.
func (t *tables) divided(taken []int) (sum int64) {
	cells := 0
	for k, c := range t.classes {
		sum += int64(c.count-taken[k]) * t.cell.weights[c.state]
		cells += taken[k]
	}
	if cells > 1 {
		sum += t.node.weights[t.stateOf(taken)]
	}
	return sum
}

// stateOf returns the state of the node for so many cells of each class together.
func (t *tables) stateOf(taken []int) int {
	size := make([]int, len(t.coupled))
	cells := 0
	for k, c := range t.classes {
		for i, x := range t.project(c.size) {
			size[i] += taken[k] * x
		}
		cells += taken[k]
	}
	if cells < 2 {
		return 0
	}
	for i := range size { // The sum of sizes that are rounded down may be smaller than the rounded sum.
		size[i] += cells
	}
	return t.node.state(size)
}
