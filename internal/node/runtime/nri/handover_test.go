package nri_test

import (
	"log/slog"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// TestHandover: the grant arrives with the sandbox and is applied as it is, even if a pod that is
// gone still has the CPUs. A grant for another node is not applied, and the pod starts all the
// same.
func TestHandover(t *testing.T) {
	var in *intake.Intake
	b := newBench(t.Context(), func(c *nri.Config) { c.Handover = in })
	in = intake.New(intake.Config{
		Node: "n7", Listing: func() *handover.Listing { return nil }, Now: b.clock.now, Log: slog.New(slog.DiscardHandler),
	})
	b.plan = in.Plan
	b.start()
	defer b.check(t)
	s := b.engine.State()
	o, err := objects.Machine(s.Machine())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	planned := s.Plan(guaranteed("g", 2)).Grant
	text := func(node string) string {
		text, err := handover.Encode(node, o.Name, policy, planned)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	b.texts = map[string]string{"g": text("n7"), "other": text("n8")}
	b.list(guaranteed("old", 2), guaranteed("g", 2), guaranteed("other", 2))
	b.mustRun(t, "old")
	if old, _ := b.engine.State().Grant("old"); !old.CPUs().Equal(planned.CPUs()) {
		t.Fatalf("the pod before has CPUs %s, the grant %s", old.CPUs(), planned.CPUs())
	}
	b.end("old")
	b.mustRun(t, "g", "other")
	if g, _ := b.engine.State().Grant("g"); g == nil || !g.SameAssignments(planned) {
		t.Error("the pod has something else than its grant")
	}
	if _, there := b.engine.State().Grant("other"); !there {
		t.Error("the pod with a grant for another node has nothing")
	}
}
