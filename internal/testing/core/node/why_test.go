package node_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestWhy checks that a sentence of several reasons has each rule once, in the order of the
// reasons.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		reasons []node.Why
		want    string
	}{
		{nil, ""},
		{[]node.Why{{Text: "a"}}, "a"},
		{[]node.Why{{}, {Text: "a", Rule: "R-MEM-22"}, {}}, "a (R-MEM-22)"},
		{[]node.Why{{Text: "a"}, {Text: "b", Rule: "R-MEM-22"}, {Text: "c"}}, "a; b; c (R-MEM-22)"},
		{[]node.Why{{Text: "a", Rule: "R-CPU-41…45"}, {Text: "a", Rule: "R-CPU-80"}}, "a; a (R-CPU-41…45, R-CPU-80)"},
		{[]node.Why{{Text: "a", Rule: "R-MEM-32, R-MEM-33"}, {Text: "b", Rule: "R-MEM-33, R-MEM-3"}}, "a; b (R-MEM-32, R-MEM-33, R-MEM-3)"},
	} {
		var all node.Why
		for _, w := range c.reasons {
			all = all.And(w)
		}
		if got := all.WithRule(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.reasons, got, c.want)
		}
	}
}
