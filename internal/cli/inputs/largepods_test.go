package inputs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/shapes"
	"github.com/paddock-project/paddock/internal/testing/largepods"
)

// TestLargePods checks that generated fleets are what their package promises, that the same seed
// gives the same fleet, and that another seed gives another one.
func TestLargePods(t *testing.T) {
	seen := map[largepods.Fleet]bool{}
	for seed := range uint64(12) {
		f := largepods.New(seed, 500)
		if f != largepods.New(seed, 500) || seen[f] {
			t.Errorf("seed %d: the fleet is not the same twice, or that of another seed", seed)
		}
		seen[f] = true
		dir := t.TempDir()
		if err := f.Write(dir); err != nil {
			t.Fatal(err)
		}
		nodes, err := Reader{}.Fleet(filepath.Join(dir, largepods.NodesName))
		if err != nil || len(nodes.Notes) > 0 {
			t.Fatal(err, nodes)
		}
		s := nodes.Kinds[0].State
		for _, n := range s.Machine().CPUNodes() {
			if cpus := n.CPUs.IntersectionLen(s.AvailableCPUs()); cpus < 62 || cpus > 96 {
				t.Errorf("seed %d: NUMA node %d has %d CPUs", seed, n.ID, cpus)
			}
		}
		pods, err := os.ReadFile(filepath.Join(dir, largepods.PodsName))
		if err != nil {
			t.Fatal(err)
		}
		all, bad, err := shapes.Read(largepods.PodsName, bytes.NewReader(pods), shapes.Options{})
		if err != nil || len(bad) > 0 {
			t.Fatal(err, bad)
		}
		var count int64
		for _, shape := range all {
			count += shape.Count
			asks := shape.Pod.Spec.Containers[0].Resources.Limits
			gpus := asks[shapes.DefaultGPU]
			if cpus := asks.Cpu().Value(); cpus < 8 || cpus > 96 || gpus.Value() > 8 {
				t.Errorf("seed %d: a pod with %d CPUs and %d GPUs", seed, cpus, gpus.Value())
			}
		}
		if count != 500 {
			t.Errorf("seed %d: %d pods, expected 500", seed, count)
		}
	}
}
