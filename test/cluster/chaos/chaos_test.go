package chaos

import (
	"testing"
	"time"
)

// TestCause checks that a fault excuses a rejection on its node only if the pod was bound before
// the fault's consequences were over, and rejected after the fault began.
func TestCause(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	c := &Chaos{windows: []Window{{Kind: "policy", Node: "a", From: at(10), To: at(20)}, {Kind: "api", From: at(40), To: at(50)}}}
	for _, test := range []struct {
		name            string
		node            string
		bound, rejected int
		want            string
	}{
		{"during it", "a", 12, 13, "policy"},
		{"bound before, rejected during it", "a", 8, 11, "policy"},
		{"bound during, rejected after it", "a", 19, 25, "policy"},
		{"rejected before it", "a", 8, 9, ""},
		{"bound after it", "a", 21, 22, ""},
		{"on another node", "b", 12, 13, ""},
		{"a fault of all nodes", "b", 41, 42, "api"},
	} {
		if got := c.Cause(test.node, "uid", at(test.bound), at(test.rejected)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestNew checks that a list of faults is validated before anything starts.
func TestNew(t *testing.T) {
	if _, err := New("agents,nothing", World{}); err == nil {
		t.Error("an unknown fault is no error")
	}
	if c, err := New("all", World{}); err != nil || len(c.kinds) != len(kinds) {
		t.Errorf("all are %v, %v", c, err)
	}
}
