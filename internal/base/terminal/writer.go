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

// Writer is the last thing that text passes before a terminal: every control character but line
// feeds and tabs is replaced, whatever wrote it. What comes out does not depend on the pieces in
// which the text comes, and the memory that it takes does not grow with the text. It may be called
// by several goroutines.
type Writer struct {
	out io.Writer
	// styled lets the tones of a Style pass.
	styled bool

	mu      sync.Mutex
	pending []byte // the beginning of a character or of a tone whose rest has not come yet
}

// NewWriter returns a writer to out; styled lets the tones of a Style and the colours of a map
// pass, and nothing else that begins with ESC.
func NewWriter(out io.Writer, styled bool) *Writer { return &Writer{out: out, styled: styled} }

// File is what is written to, nil if it is no file.
func (w *Writer) File() *os.File {
	file, _ := w.out.(*os.File)
	return file
}

// piece is how much is replaced at a time, in bytes.
const piece = 32 << 10

// Write replaces and writes. The beginning of a character or of a tone waits for its rest, or for
// Flush.
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

// Flush writes what waits for its rest, because the text has ended.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(nil, true)
}

// write writes a piece; last: nothing comes after it.
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

// cleaned replaces. rest is what cannot be judged yet.
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

// longestTone is the length of the longest sequence that passes: "\x1b[38;5;16;48;5;255m".
const longestTone = 19

// toneOf is the length of the tone or colour with which data begins, 0 if there is none. more is
// true if that depends on what comes next.
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

// isTone reports whether a Style or a map writes a sequence with these parameters. Others could
// conceal text, or make it blink.
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
