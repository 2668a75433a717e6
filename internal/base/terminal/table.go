package terminal

import (
	"slices"
	"strings"
)

// Align is the side of a column to which its texts are aligned.
type Align int

// The two sides.
const (
	Left Align = iota
	Right
)

// Column is the head of a column. If Title is empty, nothing is printed above the column.
type Column struct {
	Title string
	Align Align
}

// Columns returns columns with these titles, aligned to the left. A title that begins with ">"
// aligns its column to the right.
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

// Cell is one text in a table.
type Cell struct {
	Text string
	Tone Tone
}

// Of returns a cell with the text in the tone.
func (t Tone) Of(text string) Cell { return Cell{text, t} }

// Table is text in columns. The zero value with Columns set is ready to use. Unlike the tables of
// lipgloss and tablewriter, it first narrows the widest column if the text is too wide, breaks at
// spaces first, and never breaks a number. Those tables also pad lines with spaces, which end up in
// text that people paste into issues.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Row adds a row of plain text. Missing cells at the end are empty. It is a mistake of the caller
// to pass more cells than columns: the additional ones are not printed.
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

// gap separates columns.
const gap = "  "

// Text returns the printed table: a line of titles, if there are any, and the lines of each row. A
// column is as wide as its widest text. A column that is empty in every row is omitted. If the
// table is wider than the style allows, cells are wrapped within their columns. In columns that are
// aligned to the right, which contain numbers, they are cut only behind commas. Lines do not end in
// spaces.
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

// widths returns the widths of the columns, or 0 for columns that are omitted. It narrows the
// widest column first, and breaks texts at spaces before it breaks words.
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

// least returns the minimum widths of the columns if their texts are cut at the places of a level.
func (t *Table) least(titles []Cell, level int) []int {
	narrow := make([]int, len(t.Columns))
	for i, title := range titles {
		narrow[i] = max(widestCharacter, least(title.Text, level))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			width := least(cell.Text, level)
			if t.Columns[i].Align == Right {
				width = widestPart(cell.Text)
			}
			narrow[i] = max(narrow[i], width)
		}
	}
	return narrow
}

// widestPart returns the width of the widest part of a text that is cut only behind commas:
// "194 CPUs, 16Gi" is two numbers.
func widestPart(text string) int {
	parts := strings.SplitAfter(text, ", ")
	width := 0
	for _, part := range parts {
		width = max(width, Width(strings.TrimSuffix(part, " ")))
	}
	return width
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
	owed := 0 // spaces to print before the next text
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
