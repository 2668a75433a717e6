package engine_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// TestReservations: each decision respects the reservations at that moment. Nothing is written for
// them, and a change of them is a new version. A failed write ends no reservation.
func TestReservations(t *testing.T) {
	first, _, _ := newEngine(t)
	store, list := &disk{}, []node.Reservation{{Grant: first.State().Plan(pod("waits", 4)).Grant, Why: node.OnItsWay}}
	e := engine.New(first.State(), engine.Config{
		Store: store, Now: time.Now, Observer: &book{}, Log: slog.New(slog.DiscardHandler),
		Encode:  func(*node.State) ([]byte, error) { return []byte("state"), nil },
		Reserve: func(s *node.State) *node.State { return s.WithReservations(list) },
	})
	before := e.Snapshot().Version
	d := e.Preview(engine.Candidate{Pod: pod("a", 4)})
	if d.Plan.Rejection == nil || d.Base.Plan(pod("a", 4)).Rejection == nil {
		t.Errorf("a pod gets %s, which is reserved", d.Plan.Grant.CPUs())
	}
	now := e.Snapshot()
	if now.Version == before || now.State.Reserved(node.OnItsWay) != 1 || len(now.Pending) > 0 {
		t.Errorf("the snapshot of version %d, after %d, has %d reservations and %v pending", now.Version, before, now.State.Reserved(node.OnItsWay), now.Pending)
	}
	admit(t, e, pod("a", 2))
	if version := e.Snapshot().Version; e.Preview(engine.Candidate{Pod: pod("b", 4)}).Plan.Rejection == nil || e.Snapshot().Version != version {
		t.Error("the same reservations are a new version, or are given away")
	}
	store.broken = true
	_, _ = e.Admit(t.Context(), pod("b", 1))
	store.broken = false
	if plan, err := e.Admit(t.Context(), pod("c", 2)); err != nil || plan.Rejection == nil {
		t.Errorf("after a failed write a pod gets what is reserved: %v", err)
	}
	if plan := e.State().Resize("a", pod("a", 4)); plan.Rejection == nil || plan.Rejection.Reason != rejection.Deferred {
		t.Errorf("a pod grows into what is reserved: %v", plan.Rejection)
	}
	reserved := list
	list, before = nil, e.Snapshot().Version
	if err := e.Tick(t.Context()); err != nil || e.Snapshot().Version == before || e.State().Reservations() != nil {
		t.Errorf("%v: the end of a reservation is not noticed", err)
	}
	list, before = reserved, uint64(store.writes)
	if err := e.Tick(t.Context()); err != nil || e.State().Reserved(node.OnItsWay) != 1 {
		t.Errorf("%v: a new reservation is not noticed", err)
	}
	if err := e.Flush(t.Context()); err != nil || uint64(store.writes) != before {
		t.Errorf("%v: a reservation is written", err)
	}
	admit(t, e, pod("waits", 4))
}
