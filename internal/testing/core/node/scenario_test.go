package node_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestScenarios plays the files in testdata, in the language of internal/testing/scenario. Their
// names are the list of behaviours. After a change of behaviour, run go test -rewrite, and read the
// diff.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(_ *testing.T, script golden.Script) {
		n := scenario.New(recorded)
		script.Play(func(c scenario.Command) []string { return []string{n.Run(c)} })
	})
}

// recorded reads a machine of the golden cases, or an example.
func recorded(name string) (*machine.Machine, error) {
	path := filepath.Join("../../../../testdata/golden/machines", name+".json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join("../../../../examples/machines", name+".json")
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
