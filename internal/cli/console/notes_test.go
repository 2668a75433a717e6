package console

import (
	"bytes"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

// TestNotesComeAfterTheAnswer checks the order of what a command prints: notes follow the first
// text on standard output, and precede other text on standard error. A note about what the command
// waits for is printed at once.
func TestNotesComeAfterTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		run      func(Streams)
		expected string
	}{
		"an answer": {func(s Streams) {
			s.Notes([]string{"one", "two"})
			_, _ = io.WriteString(s.Stdout, "answer\n")
		}, "answer\np: note: one\np: note: two\n"},
		"no answer": {func(s Streams) { s.Notes([]string{"one"}) }, "p: note: one\n"},
		"a message": {func(s Streams) {
			s.Notes([]string{"one"})
			_, _ = io.WriteString(s.Stderr, "message\n")
			_, _ = io.WriteString(s.Stdout, "answer\n")
		}, "p: note: one\nmessage\nanswer\n"},
		"a wait": {func(s Streams) {
			s.Notes([]string{"one"})
			s.NoteNow("waits")
			_, _ = io.WriteString(s.Stdout, "answer\n")
		}, "p: note: one\np: note: waits\nanswer\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var both bytes.Buffer
			root := &cobra.Command{Use: "p", Run: func(cmd *cobra.Command, _ []string) { c.run(StreamsOf(cmd)) }}
			if code := Execute(root, nil, nil, &both, &both); code != 0 || both.String() != c.expected {
				t.Errorf("exit code %d, printed %q, expected %q", code, both.String(), c.expected)
			}
		})
	}
}
