package terminal_test

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// cleaned returns the output of a Writer for these pieces of a text.
func cleaned(t interface{ Fatal(args ...any) }, styled bool, pieces ...[]byte) string {
	var out bytes.Buffer
	w := terminal.NewWriter(&out, styled)
	for _, p := range pieces {
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var ownTones = regexp.MustCompile(`\x1b\[([012]|3[1236]|38;5;(16;48;5;)?(0|[1-9][0-9]{0,2}))m`)

// simply is a simple Writer that gets the whole text at once.
func simply(text string, styled bool) string {
	clean := func(text string) string {
		var out strings.Builder
		for _, r := range text {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				r = unicode.ReplacementChar
			}
			out.WriteRune(r)
		}
		return out.String()
	}
	var out strings.Builder
	for styled {
		at := ownTones.FindStringIndex(text)
		if at == nil {
			break
		}
		tone := text[at[0]:at[1]]
		if own := !regexp.MustCompile(`;(2[6-9]\d|25[6-9]|[3-9]\d\d)m`).MatchString(tone); own {
			out.WriteString(clean(text[:at[0]]) + tone)
		} else {
			out.WriteString(clean(text[:at[1]]))
		}
		text = text[at[1]:]
	}
	return out.String() + clean(text)
}

// TestWriterSplitAnywhere checks that the output is the same wherever the text is split, that it
// equals the output of a simple twin, and that printable text does not change.
func TestWriterSplitAnywhere(t *testing.T) {
	parts := rapid.SampledFrom([]string{
		"a", "ü", "名", "🐎", "\n", "\t", "\r", "\x1b", "\x1b[", "\x1b[0m", "\x1b[1m", "\x1b[3", "1m", "\x1b[38;5;16;48;5;255m", "\x1b[38;5;256m", "\x1b[8m", "\x1b[m",
		"\x1b[38;5;16;48;5;2551m", "\x1b]0;t\a", "\x9b", "\xc3", "\xe5\x90", "\xf0\x9f\x90", "\x00", "\x7f", "\u202e", "\u009b31m", "m", ";", "5",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(parts, 0, 12).Draw(t, "text"), ""))
		for _, styled := range []bool{false, true} {
			want := simply(string(text), styled)
			for at := range len(text) + 1 {
				if got := cleaned(t, styled, text[:at], text[at:]); got != want {
					t.Fatalf("%q split at %d, styled %t: %q, want %q", text, at, styled, got, want)
				}
			}
			bytewise := make([][]byte, len(text))
			for i := range text {
				bytewise[i] = text[i : i+1]
			}
			if got := cleaned(t, styled, bytewise...); got != want {
				t.Fatalf("%q byte by byte, styled %t: %q, want %q", text, styled, got, want)
			}
		}
	})
}

func FuzzWriter(f *testing.F) {
	for _, text := range []string{"\x1b[31mred\x1b[0m", "\x1b]0;title\a\x1b[2J\r\n", "名\xff\xe5\x90", "\x1b[38;5;16;48;5;255m", `{"a":"b"}`} {
		f.Add([]byte(text), uint(3), true)
		f.Add([]byte(text), uint(5), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint, styled bool) {
		whole := cleaned(t, styled, text)
		split := at % uint(len(text)+1)
		if got := cleaned(t, styled, text[:split], text[split:]); got != whole {
			t.Fatalf("%q split at %d: %q, want %q", text, split, got, whole)
		}
		if !utf8.ValidString(whole) || whole != simply(string(text), styled) {
			t.Fatalf("%q: %q, want %q", text, whole, simply(string(text), styled))
		}
		if again := cleaned(t, styled, []byte(whole)); again != whole {
			t.Fatalf("%q again: %q", whole, again)
		}
	})
}

// endless reads as one line without an end.
type endless struct{}

func (endless) Read(to []byte) (int, error) {
	return copy(to, bytes.Repeat([]byte("\x1b[3"), 1+len(to)/3)), nil
}

// most counts the bytes of the largest write and of all writes.
type most struct{ bytes, all int }

func (m *most) Write(data []byte) (int, error) {
	m.bytes, m.all = max(m.bytes, len(data)), m.all+len(data)
	return len(data), nil
}

// TestWriterOfAHugeLine checks that a huge line is written in pieces and not kept in memory.
func TestWriterOfAHugeLine(t *testing.T) {
	const size = 16 << 20
	var out most
	line, err := io.ReadAll(io.LimitReader(endless{}, size))
	if err != nil {
		t.Fatal(err)
	}
	w := terminal.NewWriter(&out, true)
	if n, err := w.Write(line); n != size || err != nil {
		t.Fatal(n, err)
	}
	if out.bytes > 200<<10 || out.all < size {
		t.Errorf("written %d bytes, at most %d at a time", out.all, out.bytes)
	}
}
