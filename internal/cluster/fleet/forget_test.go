package fleet

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestForgetChanges checks that a fleet that is never asked for a class does not remember each of
// its changes forever.
func TestForgetChanges(t *testing.T) {
	s, err := node.New(hardware(t, 64*gib, 8, 8), policyOf(node.TopologySingleNUMANode, node.PodScope))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRanking(LeastStranded, nil)
	n := Node{Name: "n", State: s, Allocatable: Amounts{Pods: 110}}
	f, err := New(r, []Node{n})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		n.Used.Pods = int64(i)
		if err := f.Set(r.View(n)); err != nil {
			t.Fatal(err)
		}
		f.Forget(0)
	}
	if len(f.changes) > 0 {
		t.Errorf("%d changes are kept, and no class has to see them", len(f.changes))
	}
}
