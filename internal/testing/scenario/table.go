package scenario

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// table aligns columns. Cells are plain text.
type table struct {
	indent string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// lines pads every cell except the last of its row. An empty cell keeps its column.
func (t *table) lines() []string {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(t.rows))
	for r, row := range t.rows {
		var b strings.Builder
		b.WriteString(t.indent)
		for i, cell := range row {
			if widths[i] == 0 {
				continue
			}
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		lines[r] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// fewNodes is the maximum number of NUMA nodes for which each one always has its own line.
const fewNodes = 8

// nodeTable is a table with a line for each NUMA node. If there are more than fewNodes, adjacent
// NUMA nodes with equal cells share a line.
type nodeTable struct {
	indent string
	what   string // precedes "node 0"
	ids    []mask.Mask
	cells  [][]string
}

func (t *nodeTable) add(nodes mask.Mask, cells ...string) {
	t.ids, t.cells = append(t.ids, nodes), append(t.cells, cells)
}

func (t *nodeTable) lines() []string {
	out := table{indent: t.indent}
	for i := 0; i < len(t.ids); {
		nodes, next := t.ids[i], i+1
		for len(t.ids) > fewNodes && next < len(t.ids) && t.ids[i].Len() == 1 && t.ids[next].Len() == 1 && slices.Equal(t.cells[i], t.cells[next]) {
			nodes |= t.ids[next]
			next++
		}
		title := t.what + "nodes " + nodes.String()
		switch {
		case nodes.IsEmpty():
			title = t.what + "no node"
		case nodes.Len() == 1:
			title = fmt.Sprintf("%snode %d", t.what, nodes.Lowest())
		case next-i > 1:
			title = t.what + "nodes " + strings.Trim(nodes.String(), "{}") + " each"
		}
		out.add(append([]string{title}, t.cells[i]...)...)
		i = next
	}
	return out.lines()
}
