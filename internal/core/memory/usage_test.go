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
