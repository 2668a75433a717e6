// Package view turns values into text for people: tables and trees for a terminal.
// Functions are pure: what they print depends on their arguments alone, and whether
// there is colour is an argument. Text of other people (names of pods, of files)
// cannot smuggle control characters to the terminal.
package view

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style tells how to print. The zero value is plain text, for files and pipes.
type Style struct {
	// Color asks for ANSI colours: for terminals.
	Color bool
}

// Tone is what a piece of text means; a style makes a colour of it.
type Tone int

// The tones. Faint is for what can be passed over, Good, Warn and Bad are for results.
const (
	Plain Tone = iota
	Strong
	Faint
	Accent
	Good
	Warn
	Bad
)

// escape are the ANSI codes of the tones.
func (t Tone) escape() string {
	switch t {
	case Strong:
		return "\x1b[1m"
	case Faint:
		return "\x1b[2m"
	case Accent:
		return "\x1b[36m"
	case Good:
		return "\x1b[32m"
	case Warn:
		return "\x1b[33m"
	case Bad:
		return "\x1b[31m"
	case Plain:
	}
	return ""
}

// Paint returns the text in the tone. Control characters are replaced.
func (s Style) Paint(tone Tone, text string) string {
	text = clean(text)
	escape := tone.escape()
	if !s.Color || escape == "" || text == "" {
		return text
	}
	return escape + text + "\x1b[0m"
}

// clean replaces what does not print in one place of one line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Align is the side of a column at which its texts stand.
type Align int

// The two sides.
const (
	Left Align = iota
	Right
)

// Column is the head of a column. One without a title stands under nothing.
type Column struct {
	Title string
	Align Align
}

// Cell is one text of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Table is text in columns. Its zero value with Columns set is ready for use.
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
	t.rows = append(t.rows, row)
}

// gap parts columns.
const gap = "  "

// Text prints the table: a line of titles, if there are any, and a line for each row.
// Columns are as wide as their widest text, counted in characters; a column that is
// empty in every row is left out. Lines do not end in spaces.
func (t *Table) Text(style Style) string {
	widths := make([]int, len(t.Columns))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	titles := make([]Cell, len(t.Columns))
	for i, column := range t.Columns {
		titles[i] = Cell{column.Title, Faint}
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(column.Title))
		}
	}
	var out strings.Builder
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Title != "" }) {
		t.line(&out, style, widths, titles)
	}
	for _, row := range t.rows {
		t.line(&out, style, widths, row)
	}
	return out.String()
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
		missing := widths[i] - utf8.RuneCountInString(cell.Text)
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
