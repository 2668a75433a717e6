package node_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/scenario"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into the scenario files; read the diff afterwards")

// TestScenarios plays the files in testdata, in the language of internal/scenario. Their names are
// the list of behaviours. After a change of behaviour: go test -rewrite, and read the diff.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := scenario.Play(file, string(text), recorded)
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite && got != string(text) {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if at, want, have := firstDifference(string(text), got); at > 0 {
				t.Errorf("%s:%d: want %q, got %q; all answers:\n%s", file, at, want, have, got)
			}
		})
	}
}

// firstDifference returns the number of the first line that differs, 0 for none.
func firstDifference(a, b string) (number int, inA, inB string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		inA, inB = "", ""
		if i < len(x) {
			inA = x[i]
		}
		if i < len(y) {
			inB = y[i]
		}
		if inA != inB || (i >= len(x)) != (i >= len(y)) {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

// recorded reads a machine that the golden cases use, or an example.
func recorded(name string) (*machine.Machine, error) {
	path := filepath.Join("../../../testdata/golden/machines", name+".json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join("../../../examples/machines", name+".json")
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	found, err := discover.Read(path, data)
	if err != nil {
		return nil, err
	}
	return found.Machine, nil
}
