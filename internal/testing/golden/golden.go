// Package golden compares the results of tests with files in testdata. With the flag -rewrite, it
// writes the files instead; read the diff afterwards. Only tests may import it. A test that imports
// it must not import datadriven, which has a flag of the same name.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/testing/scenario"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into the files of testdata; read the diff afterwards")

// Compare fails the test if got differs from the file. It reports the first line that differs.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !(*rewrite && errors.Is(err, fs.ErrNotExist)) {
		t.Fatalf("%v; go test -rewrite writes a new file", err)
	}
	want := string(data)
	switch {
	case got == want && err == nil:
	case *rewrite:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:forbidigo // A file of testdata need not survive a crash.
			t.Fatal(err)
		}
	default:
		x, y := strings.Split(want, "\n"), strings.Split(got, "\n")
		i := 0
		for i < min(len(x), len(y)) && x[i] == y[i] {
			i++
		}
		line := func(lines []string) string { return strings.Join(lines[i:min(i+1, len(lines))], "") }
		t.Errorf("%s:%d: want %q, got %q; go test -rewrite writes all of it:\n%s", file, i+1, line(x), line(y), got)
	}
}

// Script is a scenario file.
type Script []scenario.Block

// Play runs the commands in order and stores the lines that run returns as their answers.
func (s Script) Play(run func(scenario.Command) []string) {
	for i := range s {
		if s[i].Command.Name != "" {
			s[i].Answer = run(s[i].Command)
		}
	}
}

// Scenarios calls play for each scenario file that matches a pattern, in a subtest with the name of
// the file. The answers that play sets must be those in the file.
func Scenarios(t *testing.T, pattern string, play func(*testing.T, Script)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files in %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := scenario.Parse(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			play(t, blocks)
			parts := make([]string, len(blocks))
			for i, b := range blocks {
				parts[i] = b.String()
			}
			Compare(t, file, strings.Join(parts, "\n"))
		})
	}
}
