package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/inputs"
)

// Streams are the streams that a command reads from and prints to.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Program is the name that messages begin with.
	Program string
}

// StreamsOf returns the streams of a command.
func StreamsOf(cmd *cobra.Command) Streams {
	return Streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), program(cmd.Root())}
}

// Reader returns a reader of the files that flags name.
func (s Streams) Reader() inputs.Reader { return inputs.Reader{Names: inputs.Flags, Stdin: s.Stdin} }

// NoteNow prints a note at once. It is for what a command waits for: the answer may never come.
func (s Streams) NoteNow(note string) {
	s.Notes([]string{note})
	if l, ok := s.Stderr.(*lateNotes); ok {
		_ = l.release() // Errors are ignored, as for all of standard error.
	}
}

// Notes prints each note on a line of its own, after the answer.
func (s Streams) Notes(notes []string) {
	for _, n := range notes {
		line := fmt.Sprintf("%s: note: %s\n", s.Program, OneLine(n))
		if l, ok := s.Stderr.(*lateNotes); ok {
			l.keep(line)
			continue
		}
		_, _ = io.WriteString(s.Stderr, line) // Errors are ignored, as for all of standard error.
	}
}

// Pods reads manifests and prints the notes about them.
func (s Streams) Pods(files inputs.PodFiles) (inputs.Pods, error) {
	read, err := s.Reader().Pods(files)
	s.Notes(read.Notes)
	return read, err
}

// Style returns the style of the output. It has colours if the output is a terminal and the user
// did not switch colours off (https://no-color.org). Its lines have the width of the output.
func (s Streams) Style() terminal.Style {
	return terminal.Style{
		Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && s.IsTerminal(),
		Width: s.Width(),
	}
}

// IsTerminal reports whether the output is a terminal.
func (s Streams) IsTerminal() bool {
	file := FileOf(s.Stdout)
	return file != nil && term.IsTerminal(int(file.Fd()))
}

const (
	// leastWidth is the width, in columns, of the narrowest terminal for which tables are
	// formatted.
	leastWidth = 80
	// PageWidth is the width, in columns, if there is no terminal. It fits a ticket, a log and ssh,
	// and does not wrap tables of usual pods.
	PageWidth = 120
)

// Width returns the number of columns of the output: COLUMNS, the width of the terminal, or
// PageWidth. It returns 0, which means no limit, for COLUMNS=0.
func (s Streams) Width() int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns >= 0 {
		if columns == 0 {
			return 0
		}
		return max(columns, leastWidth)
	}
	if file := FileOf(s.Stdout); file != nil {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return max(width, leastWidth)
		}
	}
	return PageWidth
}

// Print prints a document as json or yaml, or as text in every other form.
func (s Streams) Print(form string, document any, text func() string) error {
	var data []byte
	var err error
	switch form {
	case "json":
		data, err = json.MarshalIndent(document, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(document)
	default:
		data = []byte(text())
	}
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(data)
	return err
}

// Binary writes data that is not text, such as a picture. It returns an error if the output is a
// terminal. form is the word of -o.
func (s Streams) Binary(form string, write func(io.Writer) error) error {
	if s.IsTerminal() {
		return fmt.Errorf("-o %s is not text: redirect the output to a file", form)
	}
	out := s.Stdout
	if cleaned, is := out.(interface{ Unwrap() io.Writer }); is {
		out = cleaned.Unwrap()
	}
	return write(out)
}

// EndProgress removes the line of Progress after a computation that did not end.
func (s Streams) EndProgress() {
	if report := s.Progress(""); report != nil {
		report(0, 0)
	}
}

// Progress returns a function that prints the progress of a long computation on standard error. It
// returns nil if standard error is not a terminal.
func (s Streams) Progress(what string) func(tried, total int64) {
	file := FileOf(s.Stderr)
	if file == nil || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(tried, total int64) {
		of := ""
		if total > 0 {
			of = " of " + strconv.FormatInt(total, 10)
		}
		_, _ = fmt.Fprintf(file, "\r\x1b[K%d%s %s", tried, of, what)
		if tried == total {
			_, _ = fmt.Fprint(file, "\r\x1b[K")
		}
	}
}
