package machine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// l3Nodes returns two NUMA nodes of one socket, each with an L3 cache of its own, which is no
// uncore cache then (R-CPU-1). This is how AMD's processors report "L3 cache as NUMA domain".
func l3Nodes(caches Caches, l3 ...Unit) Description {
	d := Description{Caches: caches, L3: l3}
	for id := range 2 {
		d.Nodes = append(d.Nodes, NodeDescription{ID: id, Memory: 1 << 30, Cores: []CoreDescription{
			{Uncore: NoUncore, Threads: []int{2 * id}}, {Uncore: NoUncore, Threads: []int{2*id + 1}},
		}})
	}
	return d
}

func l3Text(m *Machine) string {
	text := ""
	for _, u := range m.L3s() {
		text += fmt.Sprintf("%d:%s ", u.ID, u.CPUs)
	}
	return text
}

// TestOwnL3s has L3 caches that are not the units of Uncores, and CPUs that go offline and come
// back.
func TestOwnL3s(t *testing.T) {
	m, err := New(l3Nodes(Caches{Classes: 4, Ways: 8, LeastWays: 1}, Unit{ID: 16, CPUs: cpuset.Of(2, 3)}, Unit{ID: 0, CPUs: cpuset.Of(0, 1)}))
	if err != nil {
		t.Fatal(err)
	}
	if got := l3Text(m); got != "0:0-1 16:2-3 " || len(m.Uncores()) != 1 || !m.HasOwnL3s() {
		t.Errorf("the L3 caches are %s, of %d uncore caches", got, len(m.Uncores()))
	}
	part, err := m.Without(cpuset.Of(1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got := l3Text(part); got != "0:0 " {
		t.Errorf("without CPUs 1-3 they are %s", got)
	}
	back, err := part.WithCPUs(m)
	if err != nil {
		t.Fatal(err)
	}
	if got := l3Text(back); got != "0:0-1 16:2-3 " {
		t.Errorf("when all are back they are %s", got)
	}
}

// TestInheritedL3s has no L3 caches of its own: they are the uncore caches or the sockets.
func TestInheritedL3s(t *testing.T) {
	m, err := New(l3Nodes(Caches{}))
	if err != nil || l3Text(m) != "0:0-3 " || m.HasOwnL3s() {
		t.Errorf("the L3 caches are %s, error %v", l3Text(m), err)
	}
}

func TestBadCaches(t *testing.T) {
	good := Caches{Classes: 4, Ways: 8, LeastWays: 1}
	all := Unit{ID: 0, CPUs: cpuset.Of(0, 1, 2, 3)}
	for name, d := range map[string]Description{
		"an id twice":           l3Nodes(good, Unit{ID: 1, CPUs: cpuset.Of(0, 1)}, Unit{ID: 1, CPUs: cpuset.Of(2, 3)}),
		"a negative id":         l3Nodes(good, Unit{ID: -1, CPUs: all.CPUs}),
		"a CPU in two caches":   l3Nodes(good, all, Unit{ID: 1, CPUs: cpuset.Of(3)}),
		"a CPU in no cache":     l3Nodes(good, Unit{ID: 0, CPUs: cpuset.Of(0, 1, 2)}),
		"too many ways":         l3Nodes(Caches{Classes: 4, Ways: 33, LeastWays: 1}),
		"a class without ways":  l3Nodes(Caches{Classes: 4, Ways: 8}),
		"hardware ways outside": l3Nodes(Caches{Classes: 4, Ways: 8, LeastWays: 1, HardwareWays: 0x100}),
		"more than 100 %":       l3Nodes(Caches{Classes: 4, LeastBandwidth: 101, BandwidthStep: 10}),
		"a negative number":     l3Nodes(Caches{Classes: -1}),
		"a negative step":       l3Nodes(Caches{Classes: 4, LeastBandwidth: 10, BandwidthStep: -1}),
	} {
		if _, err := New(d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
