package packing

// Worth is what the room of a cell is worth: the largest total weight of parts that fit into it. It
// never changes.
type Worth struct {
	grid  grid
	table *table
}

// WorthOf returns what room on the cells of a kind of node is worth by the weights of a result.
// Sizes of parts are rounded up, so that what counts really fits.
func WorthOf(nodes []Node, items []Item, kind int, r Result) *Worth {
	t := newTables(nodes, items, kind, fineStates, true)
	t.weigh(r.Weights)
	t.cell.fill(t.entries)
	return &Worth{grid: t.grid, table: t.cell}
}

// Of returns what a room is worth, in units of One.
func (w *Worth) Of(room Size) int64 {
	state := 0
	for r, x := range room {
		state += int(min(max(0, x)/w.grid.units[r], int64(w.table.levels[r]-1))) * w.table.strides[r]
	}
	return w.table.weights[state] / roughly
}

// One is about what a node without pods is worth. Smaller differences of prices than 1 in One are
// inexact.
const One = unit / roughly

const roughly = 1 << 20
