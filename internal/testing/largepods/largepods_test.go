package largepods

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// TestWriteMixed checks that a fleet of several kinds has the nodes and the pods of each.
func TestWriteMixed(t *testing.T) {
	dir := t.TempDir()
	if err := WriteMixed(dir, 4, 2, 100); err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	pods, nodes := text(PodsName), text(NodesName)
	for k, f := range []Fleet{New(4, 50), New(5, 50)} {
		name := fmt.Sprint(k + 1)
		if text("kubelet-"+name+".yaml") != f.KubeletConfig {
			t.Errorf("kind %s has another policy", name)
		}
		entry := strings.NewReplacer("name: large,", "name: large-"+name+",", KubeletName, "kubelet-"+name+".yaml").Replace(strings.TrimPrefix(f.Nodes, nodesHeader))
		if !strings.Contains(nodes, entry) {
			t.Errorf("%s\nhas no %s", nodes, entry)
		}
		header, rows, _ := strings.Cut(f.Pods, "\n")
		if !strings.HasPrefix(pods, header+"\n") || !strings.Contains(pods, rows) {
			t.Errorf("%s\nhas no %s", pods, rows)
		}
	}
}
