package node_test

import (
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestBareDecidesAlike checks that a state without its grants makes the same plan, except for the
// names in the account of a rejection.
func TestBareDecidesAlike(t *testing.T) {
	s := timingNode(t, 2, node.TopologyRestricted)
	for i := range 3 {
		var err error
		if s, err = s.Apply(s.Plan(resident(i))); err != nil {
			t.Fatal(err)
		}
	}
	bare := s.Bare()
	if n := len(bare.Grants()); n > 0 || len(s.Grants()) != 3 {
		t.Fatalf("the bare state has %d grants, the state %d", n, len(s.Grants()))
	}
	for _, budget := range []int{1, 2, 600} {
		pod := timingPod(true)
		pod.BudgetCPUs = budget + 10
		want, got := s.Plan(pod), bare.Plan(pod)
		if (budget == 600) != (want.Rejection != nil) {
			t.Fatalf("budget %d: %v", budget, want.Rejection)
		}
		if want.Rejection != nil {
			for i := range want.Rejection.Nodes {
				want.Rejection.Nodes[i].Holders = nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("budget %d:\ngot  %+v\nwant %+v", budget, got, want)
		}
	}
}
