package view_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/view"
)

func example() *view.Table {
	table := &view.Table{Columns: []view.Column{
		{Title: "NAME"}, {Title: "CPUS", Align: view.Right}, {Title: "EMPTY"}, {Title: "NOTE"},
	}}
	table.Row("wörk", "16")
	table.Cells(view.Cell{Text: "a", Tone: view.Bad}, view.Cell{Text: "4"}, view.Cell{}, view.Cell{Text: "short\x1b[31m", Tone: view.Faint})
	return table
}

func TestTable(t *testing.T) {
	const want = "" +
		"NAME  CPUS  NOTE\n" +
		"wörk    16\n" +
		"a        4  short\uFFFD[31m\n"
	if got := example().Text(view.Style{}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	const colored = "" +
		"\x1b[2mNAME\x1b[0m  \x1b[2mCPUS\x1b[0m  \x1b[2mNOTE\x1b[0m\n" +
		"wörk    16\n" +
		"\x1b[31ma\x1b[0m        4  \x1b[2mshort\uFFFD[31m\x1b[0m\n"
	if got := example().Text(view.Style{Color: true}); got != colored {
		t.Errorf("got:\n%q\nwant:\n%q", got, colored)
	}
}

// TestTableProperties: colours change nothing but colours, and no line ends in a space.
func TestTableProperties(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	rapid.Check(t, func(t *rapid.T) {
		table := &view.Table{}
		for range rapid.IntRange(1, 5).Draw(t, "columns") {
			table.Columns = append(table.Columns, view.Column{Title: "T", Align: rapid.SampledFrom([]view.Align{view.Left, view.Right}).Draw(t, "align")})
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			var cells []view.Cell
			for range rapid.IntRange(0, 5).Draw(t, "cells") {
				text := rapid.StringMatching(`[a-zö…]{0,6}`).Draw(t, "text")
				cells = append(cells, view.Cell{Text: text, Tone: view.Tone(rapid.IntRange(int(view.Plain), int(view.Bad)).Draw(t, "tone"))})
			}
			table.Cells(cells...)
		}
		plain := table.Text(view.Style{})
		if colored := codes.ReplaceAllString(table.Text(view.Style{Color: true}), ""); colored != plain {
			t.Fatalf("without colours:\n%s\nplain:\n%s", colored, plain)
		}
		for line := range strings.Lines(plain) {
			if strings.HasSuffix(line, " \n") {
				t.Fatalf("line ends in a space: %q", line)
			}
		}
	})
}
