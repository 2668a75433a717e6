package largepods

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// The flags of TestWrite. `make large-pods` sets them.
var (
	seed   = flag.Uint64("seed", 1, "the random seed of the fleet that is written")
	pods   = flag.Int("pods", 5000, "the number of its pods")
	output = flag.String("output", "", "the directory for the fleet, which is created; if empty, a temporary one")
)

// TestWrite writes a fleet, and reads the files back.
func TestWrite(t *testing.T) {
	dir := *output
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f := New(*seed, *pods)
	if err := f.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, expected := range map[string]string{NodesName: f.Nodes, KubeletName: f.KubeletConfig, PodsName: f.Pods} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != expected {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
