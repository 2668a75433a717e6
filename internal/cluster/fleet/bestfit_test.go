package fleet

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestRankingForgetsStates checks that a ranking that sees a new state with every change of a node
// keeps few of them, and finds the kind of a node again that it has forgotten.
func TestRankingForgetsStates(t *testing.T) {
	r := NewRanking(BestFit, nil)
	m := hardware(t, 64*gib, 8, 8)
	var first *fitting
	for i := range 3 * maxStates {
		s, err := node.New(m, policyOf(node.TopologySingleNUMANode, node.PodScope))
		if err != nil {
			t.Fatal(err)
		}
		f := r.fitting(&Node{Name: "n", State: s})
		if first == nil {
			first = f
		}
		if f != first {
			t.Fatalf("state %d of the same node is another kind of node", i)
		}
	}
	if len(r.byState) > maxStates || len(r.fittings) != 1 {
		t.Errorf("%d states and %d kinds are kept, want at most %d and 1", len(r.byState), len(r.fittings), maxStates)
	}
}
