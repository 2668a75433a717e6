package terminal_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func TestWidth(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
	}{
		{"", 0},
		{"pod", 3},
		{"wörk", 4},
		{"wo\u0308rk", 4}, // ö as two code points
		{"…·→×", 4},
		{"名前", 4},
		{"🐎", 2},
		{"\ufffd", 1},
	} {
		if got := terminal.Width(c.text); got != c.columns {
			t.Errorf("%q takes %d columns, want %d", c.text, got, c.columns)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"default/web", 11, "default/web"},
		{"default/web-5d4f-x7k2p", 13, "default/…7k2p"},
		{"default/web", 1, "…"},
		{"default/web", 0, ""},
		{"名前名前名前", 7, "名前…前"},
		{"a\x1b[31mb", 20, "a\ufffd[31mb"},
	} {
		if got := terminal.Fit(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestNothingIsWider checks that lines of any text are at most as wide as requested and have no
// control characters.
func TestNothingIsWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := rapid.String().Draw(t, "text"), rapid.IntRange(4, 40).Draw(t, "width")
		for _, line := range append(terminal.Wrap(text, width), terminal.Fit(text, width)) {
			if terminal.Width(line) > width {
				t.Errorf("%q takes %d columns of %d", line, terminal.Width(line), width)
			}
			if strings.ContainsAny(line, "\x1b\n\r\u202e") {
				t.Errorf("%q has a control character", line)
			}
		}
	})
}
