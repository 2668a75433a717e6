package packing

import (
	"math"
	"slices"
)

// none is the choice of a state in which nothing is packed.
const none = -1

// table has the largest weight that fits into every size up to a largest one, in units of a grid.
// An entry without a limit can be used any number of times.
type table struct {
	levels, strides []int
	// weights is by state, and a state of a size is the sum of size·stride. choices has the entry
	// without a limit that was packed last.
	weights []int64
	choices []int32
	// bundles has the entries with limits, in the order in which they were offered to all states,
	// after the others.
	bundles []bundle
}

// bundle is a number of equal entries that are packed together or not at all. Bundles of 1, 2, 4
// and so on of an entry have every number up to its limit.
type bundle struct {
	entry, times, offset int
	took                 []uint64 // the states in which it is packed, as bits
}

// entry is something to pack.
type entry struct {
	size   []int
	weight int64
	apart  int // as that of the need
	// most is how often it can be used, or 0 if there is no limit. of is then the position of its
	// item plus 1.
	most int64
	of   int
}

// sized reports whether the entry takes something.
func (e *entry) sized() bool { return slices.ContainsFunc(e.size, func(s int) bool { return s > 0 }) }

// times returns how often an entry can be used in a size. One that takes nothing and has no limit
// can be used once.
func (e *entry) times(into []int) float64 {
	n := math.MaxInt
	for r, s := range e.size {
		if s > 0 {
			n = min(n, into[r]/s)
		}
	}
	switch {
	case e.most > 0:
		return float64(min(int64(n), e.most))
	case n == math.MaxInt:
		return 1
	}
	return float64(n)
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

// fill computes all weights. It returns the number of steps. Entries without a weight are skipped,
// and so are entries without a size that have no limit.
func (t *table) fill(entries []entry) (steps int64) {
	clear(t.weights)
	for i := range t.choices {
		t.choices[i] = none
	}
	t.bundles = t.bundles[:0]
	largest := make([]int, len(t.levels))
	for r, n := range t.levels {
		largest[r] = n - 1
	}
	var limited []int
	for i, e := range entries {
		fits := e.times(largest)
		switch {
		case e.weight <= 0 || fits == 0 || !e.sized() && e.most == 0:
		case e.most == 0 || fits < float64(e.most): // The size is the limit.
			steps += t.add(int32(i), e, t.state(e.size), 0, 0)
		default:
			limited = append(limited, i)
		}
	}
	for _, i := range limited {
		steps += t.addLimited(entries, i)
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

// addLimited offers an entry to all states up to as often as its limit allows.
func (t *table) addLimited(entries []entry, i int) (steps int64) {
	e := &entries[i]
	for left, n := e.most, int64(1); left > 0; n *= 2 {
		n = min(n, left)
		left -= n
		size := make([]int, len(e.size))
		for r, s := range e.size {
			size[r] = s * int(n)
		}
		b := t.nextBundle()
		b.entry, b.times, b.offset = i, int(n), t.state(e.size)*int(n)
		steps += t.addOnce(b, e.weight*n, size, 0, 0)
	}
	return steps
}

// nextBundle returns a bundle that no state has, at the end of the bundles.
func (t *table) nextBundle() *bundle {
	if len(t.bundles) < cap(t.bundles) {
		t.bundles = t.bundles[:len(t.bundles)+1] // Its bits are there from before.
	} else {
		t.bundles = append(t.bundles, bundle{})
	}
	b := &t.bundles[len(t.bundles)-1]
	if b.took == nil {
		b.took = make([]uint64, (len(t.weights)+63)/64)
	}
	clear(b.took)
	return b
}

// addOnce lets a bundle be packed in all states, from the largest to the smallest, so that no state
// has it twice. The arguments are those of add.
func (t *table) addOnce(b *bundle, weight int64, size []int, r, from int) (steps int64) {
	last := len(t.levels) - 1
	if r < last {
		for at := t.levels[r] - 1; at >= size[r]; at-- {
			steps += t.addOnce(b, weight, size, r+1, from+at*t.strides[r])
		}
		return steps
	}
	for x := from + t.levels[last] - 1; x >= from+size[last]; x-- {
		if w := t.weights[x-b.offset] + weight; w > t.weights[x] {
			t.weights[x] = w
			b.took[x/64] |= 1 << (x % 64)
		}
	}
	return int64(max(0, t.levels[last]-size[last]))
}

// packed calls use for each entry that is packed in a state.
func (t *table) packed(entries []entry, state int, use func(entry int)) {
	for k := len(t.bundles) - 1; k >= 0; k-- {
		b := &t.bundles[k]
		if b.took[state/64]>>(state%64)&1 == 0 {
			continue
		}
		for range b.times {
			use(b.entry)
		}
		state -= b.offset
	}
	for t.choices[state] != none {
		i := t.choices[state]
		use(int(i))
		state -= t.state(entries[i].size)
	}
}
