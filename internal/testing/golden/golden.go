// Package golden compares the results of tests with files in testdata. With the flag -rewrite, it
// writes the files instead; read the diff afterwards. If a new answer of a scenario begins with
// "error:", the file is written too, but the test fails, because such an answer usually means a
// typing mistake. Only tests may import the package. The flag is that of datadriven, so that a test
// can use both.
package golden

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/cockroachdb/datadriven" // for its flag
	"github.com/rogpeppe/go-internal/diff"

	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// Rewriting reports whether answers are written into the files of testdata.
func Rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// Compare fails the test if got differs from the file. It prints the difference and the command
// that records got.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !(Rewriting() && errors.Is(err, fs.ErrNotExist)) {
		t.Fatalf("%v; to write it: %s", err, command(t))
	}
	want := string(data)
	switch {
	case got == want && err == nil:
	case Rewriting():
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:forbidigo // A file of testdata need not survive a crash.
			t.Fatal(err)
		}
	default:
		t.Errorf("the answers are not those of %s; if they are right: %s\n%s", file, command(t),
			diff.Diff(file, []byte(want), "got", []byte(got)))
	}
}

// Scripts is for a test that runs testscript with UpdateScripts. If the test fails, Scripts prints
// the command that records the answers of its scripts.
func Scripts(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && !Rewriting() {
			t.Log("if the answers of the scripts are right: " + command(t))
		}
	})
}

// command returns the command that records the answers of a test.
func command(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := "."
	for top := dir; filepath.Dir(top) != top; top = filepath.Dir(top) {
		if _, err := os.Stat(filepath.Join(top, "go.mod")); err == nil {
			at = "./" + filepath.ToSlash(strings.TrimPrefix(dir, top+string(filepath.Separator)))
			break
		}
	}
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return "go test " + at + " -run '" + strings.Join(parts, "/") + "' -rewrite"
}

// mistakes describes the answers that begin with "error:" and are not recorded.
func mistakes(recorded, played Script) (all []string) {
	for i, b := range played {
		if len(b.Answer) > 0 && strings.HasPrefix(b.Answer[0], "error:") && !slices.Equal(recorded[i].Answer, b.Answer) {
			all = append(all, fmt.Sprintf("the answer to %q is new, and an %s", b.Command.Name, b.Answer[0]))
		}
	}
	return all
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
			played := slices.Clone(blocks)
			play(t, played)
			for _, mistake := range mistakes(blocks, played) {
				t.Errorf("%s: %s", file, mistake)
			}
			blocks = played
			parts := make([]string, len(blocks))
			for i, b := range blocks {
				parts[i] = b.String()
			}
			Compare(t, file, strings.Join(parts, "\n"))
		})
	}
}
