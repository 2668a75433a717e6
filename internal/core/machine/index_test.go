package machine_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// TestIndexOfUnitsThatOverlap uses a NUMA node on two sockets, a socket on two NUMA nodes, a cache
// that spans both, a NUMA node without CPUs, and ids with gaps.
func TestIndexOfUnitsThatOverlap(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{
		{ID: 0, Cores: []machine.CoreDescription{{Socket: 3, Uncore: 5, Threads: []int{0, 4}}}},
		{ID: 1},
		{ID: 4, Cores: []machine.CoreDescription{
			{Socket: 3, Uncore: 5, Threads: []int{1}},
			{Socket: 7, Uncore: 6, Threads: []int{2, 6}},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	x := m.Index()
	for _, c := range []struct{ what, got, want string }{
		{"places", fmt.Sprint(x.Places), "[{0 0 0 0} {1 0 1 0} {2 1 1 1} {-1 -1 -1 -1} {0 0 0 0} {-1 -1 -1 -1} {2 1 1 1}]"},
		{"cores of sockets", fmt.Sprint(x.SocketCores), "[[0 1] [2]]"},
		{"cores of NUMA nodes", fmt.Sprint(x.NodeCores), "[[0] [1 2]]"},
		{"cores of caches", fmt.Sprint(x.UncoreCores), "[[0 1] [2]]"},
		{"sockets of NUMA nodes", fmt.Sprint(x.NodeSockets), "[[{0 0,4}] [{0 1} {1 2,6}]]"},
		{"caches of NUMA nodes", fmt.Sprint(x.NodeUncores), "[[{0 0,4}] [{0 1} {1 2,6}]]"},
		{"NUMA nodes of sockets", fmt.Sprint(x.SocketNodes), "[[{0 0,4} {1 1}] [{1 2,6}]]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}
