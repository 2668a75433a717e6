package node_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
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

// TestLastGeneration checks that, at MaxGeneration, pods can still be released, and no plan applies
// any more, whatever state it was made for.
func TestLastGeneration(t *testing.T) {
	w := world{cpus: 8, reserved: cpuset.Of(0), static: true}
	s, err := node.Restore(w.machine(t), w.policy(), grants(t, w))
	if err != nil {
		t.Fatal(err)
	}
	late := request.Pod{Identity: request.Identity{UID: "late", Namespace: "default", Name: "late"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 1}}}}
	for _, from := range []uint64{node.MaxGeneration - 1, node.MaxGeneration, node.MaxGeneration + 1, 1<<64 - 1} {
		last := s.Resume(from)
		if from == node.MaxGeneration-1 {
			if last, err = last.Apply(last.Plan(late)); err != nil {
				t.Fatal(err)
			}
			last = last.Release("late").Resume(from)
		}
		if last.Generation() != node.MaxGeneration {
			t.Fatalf("resumed at %d: generation %d", from, last.Generation())
		}
		stale := last.Plan(late)
		after := last.Release("one").RemoveContainer("pool", "app").ContainerCreated("pool", "log")
		if after.Generation() != node.MaxGeneration || len(after.Grants()) != 1 {
			t.Errorf("after a release: generation %d, %d pods", after.Generation(), len(after.Grants()))
		}
		for _, plan := range []*node.Plan{stale, after.Plan(late)} {
			if next, err := after.Apply(plan); !errors.Is(err, node.ErrExhausted) || next != nil {
				t.Errorf("a plan was applied at the end of the count: %v", err)
			}
		}
		if same, err := after.Apply(after.Plan(after.Grants()[0].Pod)); err != nil || same != after {
			t.Errorf("a known pod: %v", err)
		}
		if err := after.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestAbsurdSequence checks that a grant that was admitted after the last generation is rejected,
// with its pod's name.
func TestAbsurdSequence(t *testing.T) {
	w := world{cpus: 8, reserved: cpuset.Of(0), static: true}
	list := slices.Clone(grants(t, w))
	absurd := *list[0]
	absurd.Sequence = 1<<64 - 1
	list[0] = &absurd
	if _, err := node.Restore(w.machine(t), w.policy(), list); !errors.Is(err, node.ErrInvariant) || !strings.Contains(err.Error(), "pod default/one") {
		t.Errorf("restored: %v", err)
	}
	testAdopt(t, list, w, "pool 2-5, shared 0-1,6-7", []string{"pod default/one is forgotten: it was admitted in revision 18446744073709551615"})
}
