package terminal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""},
		{"it fits", 10, "it fits"},
		{"one two three", 8, "one two|three"},
		{"  one two three", 8, "  one|  two|  three"},
		{"4 GiB + 4 GiB hugepages-1Gi", 14, "4 GiB + 4 GiB|hugepages-1Gi"},
		{"1-8,64-71,193-200", 10, "1-8,64-71,|193-200"},
		{"default/packet-forwarder-0", 20, "default/|packet-forwarder-0"},
		{"default/packet-forwarder-0", 12, "default/|packet-|forwarder-0"},
		{"abcdefghij", 4, "abcd|efgh|ij"},
		{"名前名前", 5, "名前|名前"},
	} {
		if got := strings.Join(terminal.Wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestParagraph(t *testing.T) {
	texts := []terminal.Cell{terminal.Warn.Of("note"), terminal.Strong.Of("default/a:"), terminal.Plain.Of("it is all\nright here")}
	for _, c := range []struct {
		style terminal.Style
		want  string
	}{
		{terminal.Style{}, "note default/a: it is all\ufffdright here\n"},
		{terminal.Style{Width: 20}, "note default/a: it\n  is all\ufffdright here\n"},
		{terminal.Style{Width: 20, Color: true}, "\x1b[33mnote\x1b[0m \x1b[1mdefault/a:\x1b[0m it\n  is all\ufffdright here\n"},
	} {
		if diff := cmp.Diff(c.want, c.style.Paragraph("", "  ", texts...)); diff != "" {
			t.Errorf("%+v: %s", c.style, diff)
		}
	}
}

// TestTablesFit checks that a table of texts on the left is at most as wide as requested, however
// long the texts are, and shows all of them in order.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 8).Draw(t, "columns")
		width := rapid.IntRange(6*columns, 120).Draw(t, "width")
		table := terminal.Table{Columns: make([]terminal.Column, columns)}
		var want strings.Builder
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			text := rapid.StringMatching(`( ){0,2}[a-z0-9,/ -]{0,60}`).Draw(t, "text")
			at := rapid.IntRange(0, columns-1).Draw(t, "column")
			row := make([]string, columns)
			row[at] = text
			table.Row(row...)
			want.WriteString(strings.Join(strings.Fields(text), ""))
		}
		got := table.Text(terminal.Style{Width: width})
		for line := range strings.Lines(got) {
			if n := terminal.Width(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("a line of %d columns of %d: %q", n, width, line)
			}
		}
		if text := strings.Join(strings.Fields(got), ""); text != want.String() {
			t.Fatalf("shows %q of %q", text, want.String())
		}
	})
}

// TestNarrowTable checks that names stay whole while breaks at spaces elsewhere suffice, and that
// numbers always stay whole.
func TestNarrowTable(t *testing.T) {
	table := &terminal.Table{Columns: []terminal.Column{{Title: "POD"}, {Title: "MOST CPUS", Align: terminal.Right}, {Title: "BECAUSE"}}}
	table.Row("default/web-5d4f", "12", "it asks for more than there is on one NUMA node")
	table.Row("default/db", "1234567", "no")
	for _, c := range []struct {
		width int
		want  string
	}{
		{50, "" +
			"POD               MOST CPUS  BECAUSE\n" +
			"default/web-5d4f         12  it asks for more than\n" +
			"                             there is on one NUMA\n" +
			"                             node\n" +
			"default/db          1234567  no\n"},
		{30, "" +
			"POD              MOST  BECAUSE\n" +
			"                 CPUS\n" +
			"default/           12  it asks\n" +
			"web-5d4f               for\n" +
			"                       more\n" +
			"                       than\n" +
			"                       there\n" +
			"                       is on\n" +
			"                       one\n" +
			"                       NUMA\n" +
			"                       node\n" +
			"default/db    1234567  no\n"},
	} {
		if diff := cmp.Diff(c.want, table.Text(terminal.Style{Width: c.width})); diff != "" {
			t.Errorf("%d columns: %s", c.width, diff)
		}
	}
}
