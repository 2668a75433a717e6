package terminal

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Writer is the last step before text reaches a terminal. It replaces every control character
// except line feeds and tabs, whatever wrote it. The output does not depend on how the text is
// split into writes, and the memory use does not grow with the text. A Writer is safe for
// concurrent use.
type Writer struct {
	out io.Writer
	// styled lets the tones of a Style through.
	styled bool

	mu      sync.Mutex
	pending []byte // the beginning of a character or tone whose rest has not been written yet
}

// NewWriter returns a Writer that writes to out. If styled is true, it lets the tones of a Style
// and the colours of a map through, and no other sequences that begin with ESC.
func NewWriter(out io.Writer, styled bool) *Writer { return &Writer{out: out, styled: styled} }

// File returns the underlying file, or nil if it is not a file.
func (w *Writer) File() *os.File {
	file, _ := w.out.(*os.File)
	return file
}

// Unwrap returns the writer without the replacement of control characters. It is for files with
// other content than text.
func (w *Writer) Unwrap() io.Writer { return w.out }

// piece is the number of bytes that are processed at a time.
const piece = 32 << 10

// Write cleans text and writes it. It keeps an incomplete character or tone at the end until its
// rest is written, or until Flush.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for done := 0; done < len(text); {
		n := min(piece, len(text)-done)
		if err := w.write(text[done:done+n], false); err != nil {
			return done, err
		}
		done += n
	}
	return len(text), nil
}

// Flush writes an incomplete character or tone, because the text has ended.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(nil, true)
}

// write writes a piece. last is true if no more text follows.
func (w *Writer) write(text []byte, last bool) error {
	data := text
	if len(w.pending) > 0 {
		data = slices.Concat(w.pending, text)
	}
	out, rest := w.cleaned(data, last)
	w.pending = bytes.Clone(rest)
	if len(out) == 0 {
		return nil
	}
	_, err := w.out.Write(out)
	return err
}

// cleaned returns the cleaned data. rest is the end of data that cannot be judged yet.
func (w *Writer) cleaned(data []byte, last bool) (out, rest []byte) {
	out = make([]byte, 0, len(data))
	for len(data) > 0 {
		tone, more := 0, false
		if w.styled {
			tone, more = toneOf(data)
		}
		if !last && (more || !utf8.FullRune(data)) {
			return out, data
		}
		r, size := utf8.DecodeRune(data)
		switch {
		case tone > 0:
			out, size = append(out, data[:tone]...), tone
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		default:
			out = utf8.AppendRune(out, unicode.ReplacementChar)
		}
		data = data[size:]
	}
	return out, nil
}

// longestTone is the length in bytes of the longest sequence that passes: "\x1b[38;5;16;48;5;255m".
const longestTone = 19

// toneOf returns the length of the tone or colour at the beginning of data, or 0 if there is none.
// more is true if that depends on the bytes that follow.
func toneOf(data []byte) (length int, more bool) {
	const begin = "\x1b["
	if head := data[:min(len(data), len(begin))]; string(head) != begin {
		return 0, bytes.HasPrefix([]byte(begin), head)
	}
	for i := len(begin); i < min(len(data), longestTone); i++ {
		switch c := data[i]; {
		case c == 'm' && isTone(string(data[len(begin):i])):
			return i + 1, false
		case c != ';' && (c < '0' || c > '9'):
			return 0, false
		}
	}
	return 0, len(data) < longestTone
}

// isTone reports whether a Style or a map writes a sequence with these parameters. Other sequences
// could conceal text or make it blink.
func isTone(parameters string) bool {
	switch parameters {
	case "0", "1", "2", "31", "32", "33", "36":
		return true
	}
	for _, begin := range []string{"38;5;16;48;5;", "38;5;"} {
		if colour, is := strings.CutPrefix(parameters, begin); is {
			n, err := strconv.Atoi(colour)
			return err == nil && n <= 255 && strconv.Itoa(n) == colour
		}
	}
	return false
}
