package terminal

import (
	"slices"
	"strings"
)

// Align is the side of a column at which its texts are.
type Align int

// The two sides.
const (
	Left Align = iota
	Right
)

// Column is the head of a column. One without a title has nothing above it.
type Column struct {
	Title string
	Align Align
}

// Columns are columns with these titles, aligned to the left. After a ">", the column is aligned to
// the right.
func Columns(titles ...string) []Column {
	columns := make([]Column, len(titles))
	for i, title := range titles {
		columns[i].Title = title
		if title, right := strings.CutPrefix(title, ">"); right {
			columns[i] = Column{title, Right}
		}
	}
	return columns
}

// Cell is one text of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Of is a cell in the tone.
func (t Tone) Of(text string) Cell { return Cell{text, t} }

// Table is text in columns. Its zero value with Columns set is ready for use. It differs from the
// tables of lipgloss and tablewriter in which column gives way when the text is too wide: the
// widest one, at spaces first, and never a number. They also fill a line with spaces, which ends up
// in what people paste into an issue.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Row adds a row of plain text. Cells that are missing at the end are empty; more
// cells than columns are a mistake of the caller and not printed.
func (t *Table) Row(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.Cells(cells...)
}

// Cells adds a row.
func (t *Table) Cells(cells ...Cell) {
	row := make([]Cell, len(t.Columns))
	copy(row, cells)
	for i := range row {
		row[i].Text = Clean(row[i].Text)
	}
	t.rows = append(t.rows, row)
}

// gap is between columns.
const gap = "  "

// Text prints the table: lines of titles, if there are any, and of each row. A column is as wide as
// its widest text; a column that is empty in every row is left out. If that is wider than the style
// allows, cells are wrapped inside their columns, all but those on the right side, which are
// numbers. Lines do not end in spaces.
func (t *Table) Text(style Style) string {
	titles := make([]Cell, len(t.Columns))
	for i, column := range t.Columns {
		titles[i] = Faint.Of(Clean(column.Title))
	}
	widths := t.widths(titles, style.Width)
	var out strings.Builder
	if slices.ContainsFunc(titles, func(c Cell) bool { return c.Text != "" }) {
		t.row(&out, style, widths, titles)
	}
	for _, row := range t.rows {
		t.row(&out, style, widths, row)
	}
	return out.String()
}

// widths are those of the columns; 0 for one that is left out. The widest gives way first, and what
// is cut at spaces before what is cut inside words.
func (t *Table) widths(titles []Cell, limit int) []int {
	widths := make([]int, len(t.Columns))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell.Text))
		}
	}
	total := -len(gap)
	for i, title := range titles {
		if widths[i] > 0 {
			widths[i] = max(widths[i], Width(title.Text))
			total += widths[i] + len(gap)
		}
	}
	for level := 0; limit > 0 && total > limit && level < levels; level++ {
		least := t.least(titles, level)
		for total > limit {
			widest := -1
			for i, width := range widths {
				if width > least[i] && (widest < 0 || width > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	return widths
}

// least is how narrow columns can be if their texts are cut at the places of a level.
func (t *Table) least(titles []Cell, level int) []int {
	narrow := make([]int, len(t.Columns))
	for i, title := range titles {
		narrow[i] = max(widestCharacter, least(title.Text, level))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			width := Width(cell.Text)
			if t.Columns[i].Align == Left {
				width = least(cell.Text, level)
			}
			narrow[i] = max(narrow[i], width)
		}
	}
	return narrow
}

// row prints a row on as many lines as its cells need.
func (t *Table) row(out *strings.Builder, style Style, widths []int, row []Cell) {
	wrapped, height := make([][]string, len(row)), 1
	for i, cell := range row {
		if widths[i] > 0 {
			wrapped[i] = Wrap(cell.Text, widths[i])
			height = max(height, len(wrapped[i]))
		}
	}
	for n := range height {
		line := slices.Clone(row)
		for i := range line {
			line[i].Text = ""
			if n < len(wrapped[i]) {
				line[i].Text = wrapped[i][n]
			}
		}
		t.line(out, style, widths, line)
	}
}

func (t *Table) line(out *strings.Builder, style Style, widths []int, row []Cell) {
	owed := 0 // Spaces that are due before the next text.
	first := true
	for i, cell := range row {
		if widths[i] == 0 {
			continue
		}
		if !first {
			owed += len(gap)
		}
		first = false
		missing := widths[i] - Width(cell.Text)
		if t.Columns[i].Align == Right {
			owed, missing = owed+missing, 0
		}
		if cell.Text == "" {
			owed += missing
			continue
		}
		out.WriteString(strings.Repeat(" ", owed))
		out.WriteString(style.Paint(cell.Tone, cell.Text))
		owed = missing
	}
	out.WriteByte('\n')
}
