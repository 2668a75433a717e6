package terminal_test

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

func TestWriter(t *testing.T) {
	const text = "\x1b[31mred\x1b[0m \x1b]0;title\a\x1b[2J\r\nname\t名 \u202e\xff ü"
	for _, c := range []struct {
		styled bool
		want   string
	}{
		{true, "\x1b[31mred\x1b[0m \ufffd]0;title\ufffd\ufffd[2J\ufffd\nname\t名 \ufffd\ufffd ü"},
		{false, "\ufffd[31mred\ufffd[0m \ufffd]0;title\ufffd\ufffd[2J\ufffd\nname\t名 \ufffd\ufffd ü"},
	} {
		var out bytes.Buffer
		if _, err := io.WriteString(terminal.NewWriter(&out, c.styled), text); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("styled %t: %q, want %q", c.styled, out.String(), c.want)
		}
	}
}

// TestWriterInPieces checks that the output does not depend on how printable text is split.
func TestWriterInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zü名\n🐎]{0,20}`).Draw(t, "text")
		var out bytes.Buffer
		if _, err := io.Copy(terminal.NewWriter(&out, false), iotest.OneByteReader(bytes.NewBufferString(text))); err != nil {
			t.Fatal(err)
		}
		if out.String() != text {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}
