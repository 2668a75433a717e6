package terminal

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Writer is the last thing that text passes before a terminal: every control character but line
// feeds and tabs is replaced, whatever wrote it. It may be called by several goroutines.
type Writer struct {
	out io.Writer
	// styled lets the tones of a Style pass.
	styled bool

	mu      sync.Mutex
	pending []byte // the beginning of a character whose rest has not come yet
}

// NewWriter returns a writer to out; styled lets tones and colours pass, and nothing else that
// begins with ESC.
func NewWriter(out io.Writer, styled bool) *Writer { return &Writer{out: out, styled: styled} }

// File is what is written to, nil if it is no file.
func (w *Writer) File() *os.File {
	file, _ := w.out.(*os.File)
	return file
}

// tones are the sequences that a Style and a map write.
var tones = regexp.MustCompile(`^\x1b\[[0-9;]*m`)

// Write replaces and writes. Of a character that is not complete the rest must come next.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data := slices.Concat(w.pending, text)
	w.pending = nil
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if last := data[len(data)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				w.pending, data = bytes.Clone(last), data[:len(data)-n]
			}
			break
		}
	}
	if _, err := w.out.Write(w.cleaned(data)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (w *Writer) cleaned(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if tone := tones.Find(data); w.styled && tone != nil {
			out, size = append(out, tone...), len(tone)
		} else if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = utf8.AppendRune(out, unicode.ReplacementChar)
		}
		data = data[size:]
	}
	return out
}
