package node_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

func TestResumeNeverCountsBack(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Cores: []machine.CoreDescription{{Threads: []int{0}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, want uint64 }{{0, 0}, {7, 7}, {3, 7}, {7, 7}, {8, 8}} {
		before := s.Generation()
		next := s.Resume(c.to)
		if next.Generation() != c.want || s.Generation() != before {
			t.Errorf("resumed at %d: generation %d, and %d before became %d; want %d", c.to, next.Generation(), before, s.Generation(), c.want)
		}
		s = next
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
