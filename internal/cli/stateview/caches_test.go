package stateview_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

func shown(t *testing.T, name string, s *node.State) *stateview.State {
	t.Helper()
	data, err := statefile.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	state, err := stateview.StateOf(name, data, s.Machine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestCaches checks that a state and a difference of two show the parts of the caches.
func TestCaches(t *testing.T) {
	s := classtest.State(t)
	now := shown(t, "now", s)
	text := now.Text(s.Machine(), terminal.Style{})
	for _, line := range []string{"ways 0-3 of L3 0, 20% of the bandwidth", "ways 3-4 of L3 1", "ways 0-2 of L3 1"} {
		if strings.Count(text, line) != 1 {
			t.Errorf("%q is not once in\n%s", line, text)
		}
	}
	before := s
	grants := slices.Clone(s.Grants())
	for i, g := range grants {
		if g.Pod.UID == "db" {
			without := *g
			without.Containers = slices.Clone(g.Containers)
			without.Containers[0].Cache = nil
			grants[i] = &without
		}
	}
	s, err := node.Restore(before.Machine(), before.Policy(), grants)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := stateview.DiffOf(now, shown(t, "later", s.Resume(before.Generation())))
	want := stateview.Change{Pod: "prod/db", Container: "main", What: "cache", Old: "ways 0-3 of L3 0, 20% of the bandwidth"}
	if err != nil || len(diff.Changes) != 1 || diff.Changes[0] != want {
		t.Errorf("%v: %+v, want %+v", err, diff.Changes, want)
	}
}
