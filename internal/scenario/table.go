package scenario

import (
	"strings"
	"unicode/utf8"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// table aligns columns. Cells are plain text.
type table struct {
	indent string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// lines pads every cell but the last of its row; an empty cell keeps its column.
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

// bytesText is an exact amount of bytes: "1536Mi".
func bytesText(n int64) string {
	return strings.TrimPrefix(request.Amount{Resource: machine.Memory, Value: n}.String(), machine.Memory+"=")
}
