package packing

import "slices"

// none is the choice of a state in which nothing is packed.
const none = -1

// table has the largest weight that fits into every size up to a largest one, in units of a grid.
// Each entry can be used any number of times.
type table struct {
	levels, strides []int
	// weights is by state, and a state of a size is the sum of size·stride. choices has the entry
	// that was packed last.
	weights []int64
	choices []int32
}

// entry is something to pack.
type entry struct {
	size   []int
	weight int64
	apart  int // as that of the need
}

func newTable(levels []int) *table {
	t := &table{levels: levels, strides: make([]int, len(levels))}
	states := 1
	for r := len(levels) - 1; r >= 0; r-- { // The last resource has neighbouring states.
		t.strides[r] = states
		states *= levels[r]
	}
	t.weights, t.choices = make([]int64, states), make([]int32, states)
	return t
}

// state returns the position of a size, limited to the largest one.
func (t *table) state(size []int) int {
	at := 0
	for r, s := range size {
		at += min(s, t.levels[r]-1) * t.strides[r]
	}
	return at
}

// fill computes all weights. It returns the number of steps. Entries without a size or without a
// weight are skipped: the first would have no limit.
func (t *table) fill(entries []entry) (steps int64) {
	clear(t.weights)
	for i := range t.choices {
		t.choices[i] = none
	}
	for i, e := range entries {
		if e.weight <= 0 || !slices.ContainsFunc(e.size, func(s int) bool { return s > 0 }) {
			continue
		}
		fits := true
		for r, s := range e.size {
			fits = fits && s < t.levels[r]
		}
		if fits {
			steps += t.add(int32(i), e, t.state(e.size), 0, 0)
		}
	}
	return steps
}

// add lets an entry be packed in all states from a resource on. from is the state of the smallest
// size, and offset that of the entry.
func (t *table) add(i int32, e entry, offset, r, from int) (steps int64) {
	last := len(t.levels) - 1
	if r < last {
		for at := e.size[r]; at < t.levels[r]; at++ {
			steps += t.add(i, e, offset, r+1, from+at*t.strides[r])
		}
		return steps
	}
	low, high := from+e.size[last], from+t.levels[last]
	weights, before, choices := t.weights[low:high], t.weights[low-offset:high-offset], t.choices[low:high]
	for k := range weights { // States of the same entry depend on each other in this order.
		if w := before[k] + e.weight; w > weights[k] {
			weights[k], choices[k] = w, i
		}
	}
	return int64(high - low)
}

// packed calls use for each entry that is packed in a state.
func (t *table) packed(entries []entry, state int, use func(entry int)) {
	for t.choices[state] != none {
		i := t.choices[state]
		use(int(i))
		state -= t.state(entries[i].size)
	}
}
