package cpu

import "math"

// none is the gain of an impossible choice. Real gains are below 2^40 (a million CPUs squared), so
// none plus any gains stays below every real gain, and twice none does not overflow.
const none = math.MinInt64 / 4

// item is a NUMA node that a table can pick or leave.
type item struct {
	node int
	left int64 // gain if the NUMA node is left
	pick bool  // it can be picked
	idle bool  // can be picked without giving a part of the remainder
}

// move is a way to pick a NUMA node at a level.
type move struct {
	groups int // its part of the remainder
	gain   int64
	// extra means that the NUMA node gives one group more than the level. ends means that it could
	// give an extra group and does not. NUMA nodes with an extra group come first in the order, so
	// no move with extra follows a move with ends.
	extra, ends bool
}

// table is a dynamic program over NUMA nodes for one level of a split. It picks fewest to count
// items that together give rest groups of the remainder, with the largest gain.
type table struct {
	items               []item
	moves               [][]move
	fewest, count, rest int
	// cells has the largest gain of the items from i on. It is indexed by i, the number of items
	// still to pick, the number of groups still to give, and the phase. The phase is 1 after a move
	// with ends.
	cells []int64
}

func newTable(items []item, fewest, count, rest int) *table {
	t := &table{
		items: items, fewest: fewest, count: count, rest: rest,
		moves: make([][]move, len(items)),
		cells: make([]int64, (len(items)+1)*(count+1)*(rest+1)*2),
	}
	for i := range t.cells {
		t.cells[i] = none
	}
	end := len(items)
	t.cells[t.index(end, 0, 0, 0)] = 0
	t.cells[t.index(end, 0, 0, 1)] = 0
	return t
}

func (t *table) index(i, count, rest, phase int) int {
	return ((i*(t.count+1)+count)*(t.rest+1)+rest)*2 + phase
}

func (t *table) at(i, count, rest, phase int) int64 { return t.cells[t.index(i, count, rest, phase)] }

// fill computes the table for one level, from the last item to the first. Cells with more items to
// pick than there are remain none. Cells that no pick of at least fewest items can reach are
// skipped.
func (t *table) fill(s *split, level int) {
	for i := len(t.items) - 1; i >= 0; i-- {
		t.moves[i] = s.moves(t.moves[i][:0], t.items[i], level)
		for count := max(0, t.fewest-i); count <= min(t.count, len(t.items)-i); count++ {
			for rest := range t.rest + 1 {
				t.cells[t.index(i, count, rest, 0)] = t.most(i, count, rest, 0)
				t.cells[t.index(i, count, rest, 1)] = t.most(i, count, rest, 1)
			}
		}
	}
}

func (t *table) most(i, count, rest, phase int) int64 {
	most := t.items[i].left + t.at(i+1, count, rest, phase)
	if count == 0 {
		return most
	}
	for _, m := range t.moves[i] {
		if next, ok := m.from(phase); ok && m.groups <= rest {
			most = max(most, m.gain+t.at(i+1, count-1, rest-m.groups, next))
		}
	}
	return most
}

// from returns the phase after the move and whether the move is allowed in the given phase.
func (m *move) from(phase int) (int, bool) {
	switch {
	case m.extra:
		return 0, phase == 0
	case m.ends:
		return 1, true
	}
	return phase, true
}

// moves appends the ways to pick an item at a level.
func (s *split) moves(moves []move, it item, level int) []move {
	if !it.pick {
		return moves
	}
	add := func(groups int, extra, ends bool) {
		moves = append(moves, move{groups: groups, gain: s.gain(it.node, groups), extra: extra, ends: ends})
	}
	if it.idle {
		add(0, false, false)
	}
	switch spare := s.spare(it.node); {
	case spare > level:
		add(level, false, true)
		add(level+1, true, false)
	case spare > 0:
		add(spare, false, false)
	}
	return moves
}

// first returns the indexes of the lexicographically first pick of count items whose gain is at
// least enough. It returns nil if there is none.
func (t *table) first(count int, enough int64) []int {
	if t.at(0, count, t.rest, 0) < enough {
		return nil
	}
	reached := t.start()
	picked := make([]int, 0, count)
	for i := range t.items {
		if len(picked) == count {
			break
		}
		most := int64(none) // The largest gain of a pick with item i.
		with := t.after(i, reached)
		for s, gained := range with {
			most = max(most, gained+t.at(i+1, count-len(picked)-1, s/2, s%2))
		}
		if most >= enough {
			picked, reached = append(picked, i), with
			continue
		}
		for s := range reached {
			reached[s] += t.items[i].left
		}
	}
	return picked
}

// start returns the gains of an empty pick, by groups still to give and phase.
func (t *table) start() []int64 {
	reached := make([]int64, (t.rest+1)*2)
	for i := range reached {
		reached[i] = none
	}
	reached[t.rest*2] = 0
	return reached
}

// after returns the gains once item i is picked as well.
func (t *table) after(i int, reached []int64) []int64 {
	with := make([]int64, len(reached))
	for s := range with {
		with[s] = none
	}
	for s, gained := range reached {
		for _, m := range t.moves[i] {
			if next, ok := m.from(s % 2); ok && m.groups <= s/2 {
				to := (s/2-m.groups)*2 + next
				with[to] = max(with[to], gained+m.gain)
			}
		}
	}
	return with
}
