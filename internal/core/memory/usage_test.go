package memory_test

import (
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
)

// TestWhatIsReleasedLeavesNoTrace covers Q-33: the reference returns bytes on the lowest NUMA node
// first, whichever block they belong to, so b would be left on NUMA node 3.
func TestWhatIsReleasedLeavesNoTrace(t *testing.T) {
	c, err := memory.NewCapacity(twoNodes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := []memory.Block{{Type: machine.Memory, Size: 504 * mib, Nodes: mask.Of(0, 3)}}
	b := []memory.Block{{Type: machine.Memory, Size: 100 * mib, Nodes: mask.Of(0, 3)}}
	alone := memory.NewUsage(c).Charge(b, nil)
	after := memory.NewUsage(c).Charge(a, nil).Charge(b, nil).Release(a)
	if got, want := after.Nodes(), alone.Nodes(); !reflect.DeepEqual(got, want) {
		t.Errorf("b after a came and went: %+v, want %+v", got, want)
	}
	if got := after.Nodes()[0].Reserved[0]; got != 100*mib {
		t.Errorf("NUMA node 0 has %d bytes of the group, want all 100Mi, as the lowest", got)
	}
}

// TestKept checks that the usage of a kubelet keeps how the bytes of a group came to lie and
// whether a NUMA node served a block alone last, that another usage can begin with what a
// file has, and that a split without a cause is no excess.
func TestKept(t *testing.T) {
	c, err := memory.NewCapacity(twoNodes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	block := func(size int64, nodes ...int) []memory.Block {
		return []memory.Block{{Type: machine.Memory, Size: size * mib, Nodes: mask.Of(nodes...)}}
	}
	a, b := block(504, 0, 3), block(100, 0, 3)
	empty := memory.NewUsage(c).Kept()
	drifted := empty.Charge(a, nil).Charge(b, nil).Release(a)
	if got := drifted.Nodes(); got[0].Reserved[0] != 0 || got[1].Reserved[0] != 100*mib || got[1].Assignments != 1 {
		t.Errorf("b after a came and went: %+v, want all of it on NUMA node 3", got)
	}
	if found := empty.Charge(b, nil).Found(drifted.Nodes()); !found.SameNodes(drifted) || len(found.Beyond(empty.Charge(b, nil))) != 0 {
		t.Errorf("found in a file: %+v, beyond its block %+v", found.Nodes(), found.Beyond(empty.Charge(b, nil)))
	}
	alone := drifted.Charge(block(50, 0), nil)
	if all, left := alone.Alone(); all != mask.Of(0) || left != mask.Of(0) || alone.Nodes()[0].Group != mask.Of(0) {
		t.Errorf("a NUMA node of a group that served a block alone: %s, %s", all, left)
	}
	lost := drifted.Nodes()
	lost[0].Reserved[0], lost[0].Assignments = 7*mib, 2
	x := empty.Charge(b, nil).Found(lost).Beyond(empty.Charge(b, nil))
	if len(x) != 1 || x[0].Nodes != mask.Of(0, 3) || x[0].Bytes[0] != 7*mib || x[0].Blocks != 1 {
		t.Errorf("what no block explains: %+v", x)
	}
	lost = drifted.Nodes()
	lost[0].Assignments, lost[1].Assignments = 0, 0
	if x := empty.Charge(b, nil).Found(lost).Beyond(empty.Charge(b, nil)); len(x) != 1 || x[0].Blocks != -1 {
		t.Errorf("fewer assignments than blocks: %+v", x)
	}
	if got := drifted.Release(b).Nodes(); !reflect.DeepEqual(got, memory.NewUsage(c).Nodes()) {
		t.Errorf("without blocks: %+v", got)
	}
}
