package engine_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// TestPodsAreDecidedAtOnce: readers see no part of the decisions about several pods. They see all
// as pending before the write, and all as durable after it.
func TestPodsAreDecidedAtOnce(t *testing.T) {
	var e *engine.Engine
	var planning, writing []*engine.Snapshot
	made, store, book := newEngine(t, func(c *engine.Config) {
		encode := c.Encode
		c.Plan = func(s *node.State, asks engine.Candidate) (*node.Plan, *handover.Outcome) {
			planning = append(planning, e.Snapshot())
			return s.Plan(asks.Pod), nil
		}
		c.Encode = func(s *node.State) ([]byte, error) {
			writing = append(writing, e.Snapshot())
			return encode(s)
		}
	})
	e = made
	before := e.Snapshot()
	e.AdmitAll(t.Context(), candidates(pod("a", 1), pod("b", 1), pod("huge", 9), pod("c", 1)))
	expect(t, book, "write 3 true", "a admitted", "b admitted", "huge refused", "c admitted")
	if len(planning) != 4 || len(writing) != 1 {
		t.Fatalf("%d plans, %d writes", len(planning), len(writing))
	}
	for i, s := range planning {
		if s != before {
			t.Errorf("plan %d: readers see %d pending grants of pods that are being decided", i, len(s.Pending))
		}
	}
	if w := writing[0]; w.State != before.State || len(w.Pending) != 3 || w.Version == before.Version {
		t.Errorf("before the write readers see %d grants, and %d as pending", len(w.State.Grants()), len(w.Pending))
	}
	if s := e.Snapshot(); s.State != store.state || len(s.State.Grants()) != 3 || len(s.Pending) != 0 {
		t.Errorf("after the write readers see %d grants, and %d as pending", len(s.State.Grants()), len(s.Pending))
	}
}

// TestPodsComeBackBesideOthers: the release of a pod that asks for admission again is canceled,
// unless another pod was decided on top of it. Then both are planned.
func TestPodsComeBackBesideOthers(t *testing.T) {
	for _, last := range []bool{false, true} {
		e, store, _ := newEngine(t)
		admit(t, e, pod("a", 5))
		store.broken = true
		_ = e.Release(t.Context(), "a")
		store.broken = false
		pods := candidates(pod("a", 5), pod("b", 1))
		if last {
			pods[0], pods[1] = pods[1], pods[0]
		}
		for _, d := range e.AdmitAll(t.Context(), pods) {
			if keeps := d.Plan.Pod.Name == "a" && !last; d.Err != nil || d.Plan.Rejection != nil || d.Plan.Known != keeps {
				t.Errorf("a is last: %t: pod %s: known %t, %v, %v", last, d.Plan.Pod.Name, d.Plan.Known, d.Plan.Rejection, d.Err)
			}
		}
		if s := e.Snapshot(); len(s.State.Grants()) != 2 || len(s.Pending)+len(s.Unreleased) != 0 || s.State.Check() != nil {
			t.Errorf("a is last: %t: %d grants, %d pending, unreleased %v, %v", last, len(s.State.Grants()), len(s.Pending), s.Unreleased, s.State.Check())
		}
	}
}

func candidates(pods ...request.Pod) []engine.Candidate {
	list := make([]engine.Candidate, len(pods))
	for i := range pods {
		list[i].Pod = pods[i]
	}
	return list
}
