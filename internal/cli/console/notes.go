package console

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// lateNotes is standard error. It keeps notes until the answer is there, because people read the
// answer first. Notes are written after the first text on standard output, before any other text on
// standard error, such as an error, or at the end of the command.
type lateNotes struct {
	*terminal.Writer

	mu    sync.Mutex
	notes []byte
}

// keep adds a line with a note.
func (l *lateNotes) keep(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, line...)
}

// release writes the notes.
func (l *lateNotes) release() error {
	l.mu.Lock()
	notes := l.notes
	l.notes = nil
	l.mu.Unlock()
	if len(notes) == 0 {
		return nil
	}
	_, err := l.Writer.Write(notes)
	return err
}

// Write writes the notes and then text.
func (l *lateNotes) Write(text []byte) (int, error) {
	if err := l.release(); err != nil {
		return 0, err
	}
	return l.Writer.Write(text)
}

// answer is standard output, before notes.
type answer struct {
	*terminal.Writer
	notes *lateNotes
}

// Write writes text and then the notes. Like all of standard error, these can be lost.
func (a answer) Write(text []byte) (int, error) {
	n, err := a.Writer.Write(text)
	_ = a.notes.release()
	return n, err
}

// output returns the two outputs of a command without control characters. flush writes the rest.
func output(stdout, stderr io.Writer) (out, notes io.Writer, flush func()) {
	l := &lateNotes{Writer: terminal.NewWriter(stderr, false)}
	a := answer{terminal.NewWriter(stdout, true), l}
	return a, l, func() { _ = errors.Join(a.Flush(), l.release(), l.Flush()) } // Errors are ignored, as for all of standard error.
}

// FileOf returns the file behind w, or nil if w is not a file. The program writes its own control
// characters to it, past the writer that replaces all other control characters.
func FileOf(w io.Writer) *os.File {
	if cleaned, ok := w.(interface{ File() *os.File }); ok {
		return cleaned.File()
	}
	file, _ := w.(*os.File)
	return file
}
