package engine_test

import (
	"context"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// TestPreviewIsDecided: a previewed pod is planned again only if the state has changed since, or
// the preview is outdated.
func TestPreviewIsDecided(t *testing.T) {
	plans := 0
	e, store, book := newEngine(t, func(c *engine.Config) {
		c.Plan = func(s *node.State, asks engine.Candidate) (*node.Plan, *handover.Outcome) {
			plans++
			return s.Plan(asks.Pod), nil
		}
	})
	admit := func(v engine.Preview, between func(context.Context), want int) *node.Plan {
		t.Helper()
		if v.Plan.Grant == nil {
			t.Fatalf("previewed %+v, want a grant", v.Plan)
		}
		between(t.Context())
		plans = 0
		d := e.AdmitPreviewed(t.Context(), v)
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if plans != want {
			t.Errorf("pod %s was planned %d times after its preview, want %d", d.Plan.Pod.Name, plans, want)
		}
		return d.Plan
	}
	nothing := func(context.Context) {}
	first := e.Preview(engine.Candidate{Pod: pod("a", 1)})
	if got := admit(first, nothing, 0); got != first.Plan || e.State() != store.state {
		t.Error("the grant is not the previewed one, or not durable")
	}
	expect(t, book, "write 1 true", "a admitted")
	admit(first, nothing, 1)
	expect(t, book, "a known")
	admit(e.Preview(engine.Candidate{Pod: pod("b", 1)}).Outdated(), nothing, 1)
	book.take()
	admit(e.Preview(engine.Candidate{Pod: pod("c", 1)}), func(ctx context.Context) {
		if _, err := e.Admit(ctx, pod("d", 1)); err != nil {
			t.Fatal(err)
		}
	}, 1)
	expect(t, book, "write 3 true", "d admitted", "write 4 true", "c admitted")
	v := e.Preview(engine.Candidate{Pod: pod("e", 3)})
	if got, err := e.Admit(t.Context(), pod("f", 3)); err != nil || got.Grant == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := admit(v, nothing, 1); got.Rejection == nil {
		t.Error("a pod was admitted on CPUs that another pod has")
	}
	if err := e.State().Check(); err != nil {
		t.Error(err)
	}
}
