package terminal_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func example() *terminal.Table {
	table := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"}, {Title: "CPUS", Align: terminal.Right}, {Title: "EMPTY"}, {Title: "NOTE"},
	}}
	table.Row("wörk", "16")
	table.Cells(terminal.Cell{Text: "a", Tone: terminal.Bad}, terminal.Cell{Text: "4"}, terminal.Cell{}, terminal.Cell{Text: "short\x1b[31m", Tone: terminal.Faint})
	return table
}

func TestTable(t *testing.T) {
	const want = "" +
		"NAME  CPUS  NOTE\n" +
		"wörk    16\n" +
		"a        4  short\uFFFD[31m\n"
	if got := example().Text(terminal.Style{}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	const colored = "" +
		"\x1b[2mNAME\x1b[0m  \x1b[2mCPUS\x1b[0m  \x1b[2mNOTE\x1b[0m\n" +
		"wörk    16\n" +
		"\x1b[31ma\x1b[0m        4  \x1b[2mshort\uFFFD[31m\x1b[0m\n"
	if got := example().Text(terminal.Style{Color: true}); got != colored {
		t.Errorf("got:\n%q\nwant:\n%q", got, colored)
	}
}

// TestTableProperties checks that colour changes nothing else, and that no line ends in a space.
func TestTableProperties(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	rapid.Check(t, func(t *rapid.T) {
		table := &terminal.Table{}
		for range rapid.IntRange(1, 5).Draw(t, "columns") {
			table.Columns = append(table.Columns, terminal.Column{Title: "T", Align: rapid.SampledFrom([]terminal.Align{terminal.Left, terminal.Right}).Draw(t, "align")})
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			var cells []terminal.Cell
			for range rapid.IntRange(0, 5).Draw(t, "cells") {
				text := rapid.StringMatching(`[a-zö…]{0,6}`).Draw(t, "text")
				cells = append(cells, terminal.Cell{Text: text, Tone: terminal.Tone(rapid.IntRange(int(terminal.Plain), int(terminal.Bad)).Draw(t, "tone"))})
			}
			table.Cells(cells...)
		}
		plain := table.Text(terminal.Style{})
		if colored := codes.ReplaceAllString(table.Text(terminal.Style{Color: true}), ""); colored != plain {
			t.Fatalf("without colours:\n%s\nplain:\n%s", colored, plain)
		}
		for line := range strings.Lines(plain) {
			if strings.HasSuffix(line, " \n") {
				t.Fatalf("line ends in a space: %q", line)
			}
		}
	})
}
