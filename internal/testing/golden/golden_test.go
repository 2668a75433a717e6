package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// failures is a testing.TB that records failures.
type failures struct {
	testing.TB
	text string
}

func (*failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }

func (f *failures) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

// compare returns what Compare reports about a file.
func compare(t *testing.T, file, got string) string {
	f := &failures{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != f {
				panic(r)
			}
		}()
		Compare(f, file, got)
	}()
	return f.text
}

// set sets the flag -rewrite for one test.
func set(t *testing.T, to bool) {
	t.Helper()
	before := Rewriting()
	put := func(to bool) {
		if err := flag.Set("rewrite", strconv.FormatBool(to)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { put(before) })
	put(to)
}

// TestCompare checks that the report has the lines that differ, even if one text has more lines
// than the other, and the command that records the answers.
func TestCompare(t *testing.T) {
	set(t, false)
	file := filepath.Join(t.TempDir(), "answers.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		"one\ntwo\n":        "",
		"one\n2\n":          "\n one\n-two\n+2\n",
		"one\n":             "\n one\n-two\n",
		"one\ntwo\nthree\n": "\n two\n+three\n",
		"one\ntwo":          "\\ No newline at end of file",
	} {
		text := compare(t, file, got)
		if !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("%q: reported is %q, want %q", got, text, want)
		}
		if want != "" && !strings.Contains(text, records) {
			t.Errorf("%q: reported is %q, want %q", got, text, records)
		}
	}
	if text := compare(t, filepath.Join(t.TempDir(), "none.txt"), ""); !strings.Contains(text, records) {
		t.Errorf("without a file: %q, want %q", text, records)
	}
}

// records is the command that records the answers of TestCompare.
const records = "go test ./internal/testing/golden -run '^TestCompare$' -rewrite"

// TestMistakes checks that an answer that is an error is reported unless it is recorded.
func TestMistakes(t *testing.T) {
	block := func(answer ...string) scenario.Block {
		return scenario.Block{Command: scenario.Command{Name: "admitt"}, Answer: answer}
	}
	recorded := Script{block(), block("error: no command"), block("ok")}
	played := Script{block("error: no command"), block("error: no command"), block("ok")}
	if got := mistakes(recorded, played); len(got) != 1 || got[0] != `the answer to "admitt" is new, and an error: no command` {
		t.Errorf("got %q", got)
	}
}

// TestRewrite checks that a file is written if it differs or is missing.
func TestRewrite(t *testing.T) {
	set(t, true)
	for _, before := range []string{"", "other\n", "same\n"} {
		file := filepath.Join(t.TempDir(), "answers.txt")
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		Compare(t, file, "same\n")
		if data, err := os.ReadFile(file); err != nil || string(data) != "same\n" {
			t.Errorf("after %q the file has %q, %v", before, data, err)
		}
	}
}

// TestScenarios checks that each command gets its answer and that remarks are kept.
func TestScenarios(t *testing.T) {
	set(t, false)
	dir := t.TempDir()
	text := "# A remark.\n\n# Of a command.\ncount a b\n----\n2 words\n"
	if err := os.WriteFile(filepath.Join(dir, "counts.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var names []string
	Scenarios(t, filepath.Join(dir, "*.txt"), func(t *testing.T, s Script) {
		names = append(names, t.Name())
		s.Play(func(c scenario.Command) []string { return []string{fmt.Sprintf("%d words", len(c.Args))} })
	})
	if fmt.Sprint(names) != "[TestScenarios/counts]" {
		t.Errorf("the subtests are %v", names)
	}
}
