package kernelfiles

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// TestClasses checks the sums of the recorded machines. One of them does not show its interrupts to
// a container, which sees those of devices elsewhere.
func TestClasses(t *testing.T) {
	for name, want := range map[string]struct {
		cpu      int
		counts   noise.Counts
		known    [noise.NumCounted]bool
		complete bool
	}{
		"virtual-machine": {1, noise.Counts{1084114 + 15, 8766309, 1736810 + 5127884 + 2664336, 0, 359005 + 1058801}, [noise.NumCounted]bool{true, true, true, true, true}, true},
		"server":          {2, noise.Counts{17, 0, 0, 0, 3}, [noise.NumCounted]bool{true, false, false, false, true}, false},
	} {
		r, err := tree(t, "testdata/"+name+".txtar").Classes(cpuset.Of(want.cpu, 77))
		if (err == nil) != want.complete || r.Known != want.known || len(r.CPUs) != 1 || r.CPUs[want.cpu] != want.counts {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	r, err := FS{Root: t.TempDir()}.Classes(cpuset.Of(1))
	if err == nil || len(r.CPUs) != 0 || r.Known != [noise.NumCounted]bool{} {
		t.Errorf("%+v, %v", r, err)
	}
}

// BenchmarkClasses reads the interrupts of a server with 256 CPUs and 500 interrupts.
func BenchmarkClasses(b *testing.B) {
	var text strings.Builder
	for cpu := range 256 {
		fmt.Fprintf(&text, "CPU%d ", cpu)
	}
	line := strings.Repeat("     123456", 256)
	for i := range 500 {
		fmt.Fprintf(&text, "\n%d: %s PCI-MSIX-0000:00:02.0 1-edge nvme%d", i, line, i)
	}
	root := b.TempDir()
	place(b, filepath.Join(root, "proc/interrupts"), text.String())
	place(b, filepath.Join(root, "proc/softirqs"), text.String())
	cpus, err := cpuset.Parse("2-255")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := (FS{Root: root}).Classes(cpus); err != nil || len(r.CPUs) != 254 {
			b.Fatal(err)
		}
	}
}
