package packing

// spread has the largest weight that the cells of a node can hold together, for every size of the
// coupled resources that the parts may take of the node.
type spread struct {
	*table
	steps []step // of the cells, in order
}

// step is one cell. at has, by state of the node, the projected state of the cell in the best
// division between this cell and those before it.
type step struct {
	at              []int32
	states, offsets []int // the states of the cell and of the node by the projected state
}

// spread divides what the parts may take of the node between the cells.
func (t *tables) spread(budget *int64) *spread {
	s := &spread{table: newTable(t.node.levels)}
	before := make([]int64, len(s.weights))
	for _, c := range t.classes {
		low := newTable(plusOne(t.project(c.size)))
		states, offsets := make([]int, len(low.weights)), make([]int, len(low.weights))
		size := make([]int, len(t.coupled))
		for i := range states {
			full := append([]int{}, c.size...)
			for k, r := range t.coupled {
				size[k] = i / low.strides[k] % low.levels[k]
				full[r] = size[k]
			}
			states[i], offsets[i] = t.cell.state(full), s.offset(size)
		}
		low.gains(func(i int) int64 { return t.cell.weights[states[i]] })
		for range c.count {
			copy(before, s.weights)
			one := step{at: make([]int32, len(before)), states: states, offsets: offsets}
			for i := range states {
				w := t.cell.weights[states[i]]
				if offsets[i] < 0 || i > 0 && low.weights[i] == 0 {
					continue
				}
				for k := range t.coupled {
					size[k] = i / low.strides[k] % low.levels[k]
				}
				*budget -= s.join(before, one.at, size, offsets[i], int32(i), w, 0, 0)
			}
			s.steps = append(s.steps, one)
		}
	}
	return s
}

func plusOne(size []int) []int {
	for i := range size {
		size[i]++
	}
	return size
}

// offset returns the state of a size, or -1 if it is larger than the node.
func (s *spread) offset(size []int) int {
	for k, x := range size {
		if x >= s.levels[k] {
			return -1
		}
	}
	return s.state(size)
}

// join improves the states that are at least a size with a weight for that size.
func (s *spread) join(before []int64, at []int32, size []int, offset int, cell int32, weight int64, k, from int) (steps int64) {
	if k < len(size)-1 {
		for x := size[k]; x < s.levels[k]; x++ {
			steps += s.join(before, at, size, offset, cell, weight, k+1, from+x*s.strides[k])
		}
		return steps
	}
	for x := from + size[k]; x < from+s.levels[k]; x++ {
		if w := before[x-offset] + weight; w > s.weights[x] {
			s.weights[x], at[x] = w, cell
		}
	}
	return int64(s.levels[k] - size[k])
}

// visit calls use with the state of each cell in the best division of a state of the node.
func (s *spread) visit(state int, use func(cell int)) {
	for i := len(s.steps) - 1; i >= 0; i-- {
		cell := s.steps[i].at[state]
		use(s.steps[i].states[cell])
		if cell > 0 {
			state -= s.steps[i].offsets[cell]
		}
	}
}

// gains sets the weight of each state to what it has more than the best of the states that are
// smaller by one in one resource. A state without a gain is never better than that one.
func (t *table) gains(of func(state int) int64) {
	for i := range t.weights {
		t.weights[i] = of(i)
		var before int64
		for k, stride := range t.strides {
			if i/stride%t.levels[k] > 0 {
				before = max(before, of(i-stride))
			}
		}
		t.weights[i] -= before
	}
}
