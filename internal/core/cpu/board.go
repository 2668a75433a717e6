package cpu

import "math"

// none is the gain of what cannot be done. It stays far below every gain when gains are
// added to it.
const none = math.MinInt64 / 4

// item is a node that a board decides about: to pick it or not.
type item struct {
	node int
	left int64 // the gain when it is not picked
	pick bool  // it can be picked
	idle bool  // picked, it need not take part in the remainder
}

// move is a way to pick a node, at a certain level.
type move struct {
	groups int // of the remainder, which it gives
	gain   int64
	// extra: one group above the level; it must come before all moves that end these.
	extra, ends bool
}

// board is the table of a search for fewest to count items which together give rest
// groups of the remainder, with the most gain, at one level (see division).
type board struct {
	items               []item
	moves               [][]move
	fewest, count, rest int
	// cells hold the most gain by item from which on, items still to pick, groups still
	// to give, and phase: 1 after a move that ends the extras.
	cells []int64
}

func newBoard(items []item, fewest, count, rest int) *board {
	b := &board{
		items: items, fewest: fewest, count: count, rest: rest,
		moves: make([][]move, len(items)),
		cells: make([]int64, (len(items)+1)*(count+1)*(rest+1)*2),
	}
	for i := range b.cells {
		b.cells[i] = none
	}
	end := len(items)
	b.cells[b.index(end, 0, 0, 0)] = 0
	b.cells[b.index(end, 0, 0, 1)] = 0
	return b
}

func (b *board) index(i, count, rest, phase int) int {
	return ((i*(b.count+1)+count)*(b.rest+1)+rest)*2 + phase
}

func (b *board) at(i, count, rest, phase int) int64 { return b.cells[b.index(i, count, rest, phase)] }

// fill computes the table for one level. Where more items are wanted than are left,
// cells stay none; those that no search for at least the fewest items comes through are left out.
func (b *board) fill(d *division, level int) {
	for i := len(b.items) - 1; i >= 0; i-- {
		b.moves[i] = d.moves(b.moves[i][:0], b.items[i], level)
		for count := max(0, b.fewest-i); count <= min(b.count, len(b.items)-i); count++ {
			for rest := range b.rest + 1 {
				b.cells[b.index(i, count, rest, 0)] = b.most(i, count, rest, 0)
				b.cells[b.index(i, count, rest, 1)] = b.most(i, count, rest, 1)
			}
		}
	}
}

func (b *board) most(i, count, rest, phase int) int64 {
	most := b.items[i].left + b.at(i+1, count, rest, phase)
	if count == 0 {
		return most
	}
	for _, m := range b.moves[i] {
		if next, ok := m.from(phase); ok && m.groups <= rest {
			most = max(most, m.gain+b.at(i+1, count-1, rest-m.groups, next))
		}
	}
	return most
}

// from returns the phase after the move, and whether it can be made in this phase.
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
func (d *division) moves(moves []move, it item, level int) []move {
	if !it.pick {
		return moves
	}
	add := func(groups int, extra, ends bool) {
		moves = append(moves, move{groups: groups, gain: d.gain(it.node, groups), extra: extra, ends: ends})
	}
	if it.idle {
		add(0, false, false)
	}
	switch spare := d.spare(it.node); {
	case spare > level:
		add(level, false, true)
		add(level+1, true, false)
	case spare > 0:
		add(spare, false, false)
	}
	return moves
}

// first returns the lexicographically first choice of count items, by position, with at
// least enough gain, or nil.
func (b *board) first(count int, enough int64) []int {
	if b.at(0, count, b.rest, 0) < enough {
		return nil
	}
	reached := b.start()
	picked := make([]int, 0, count)
	for i := range b.items {
		if len(picked) == count {
			break
		}
		with := b.after(i, reached)
		if b.reaches(i+1, count-len(picked)-1, with, enough) {
			picked, reached = append(picked, i), with
			continue
		}
		for s := range reached {
			reached[s] += b.items[i].left
		}
	}
	return picked
}

// start is what the beginning of a choice has gained, by groups still to give and phase.
func (b *board) start() []int64 {
	reached := make([]int64, (b.rest+1)*2)
	for i := range reached {
		reached[i] = none
	}
	reached[b.rest*2] = 0
	return reached
}

// after is what has been gained once item i is picked as well.
func (b *board) after(i int, reached []int64) []int64 {
	with := make([]int64, len(reached))
	for s := range with {
		with[s] = none
	}
	for s, gained := range reached {
		for _, m := range b.moves[i] {
			if next, ok := m.from(s % 2); ok && m.groups <= s/2 {
				to := (s/2-m.groups)*2 + next
				with[to] = max(with[to], gained+m.gain)
			}
		}
	}
	return with
}

// reaches tells whether the rest of the items can complete what has been gained.
func (b *board) reaches(i, count int, reached []int64, enough int64) bool {
	for s, gained := range reached {
		if gained+b.at(i, count, s/2, s%2) >= enough {
			return true
		}
	}
	return false
}
