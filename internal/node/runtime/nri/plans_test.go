package nri_test

import (
	"log/slog"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// TestAdmissionIsPlannedOnce: a pod that fits is planned once from the hook to the durable state,
// even if the node moves pods, and if a scheduler may hand over grants.
func TestAdmissionIsPlannedOnce(t *testing.T) {
	for name, moved := range map[string]node.MovePolicy{"static": {}, "dynamic": {Pods: 2, Bytes: 1 << 30}} {
		for _, handsOver := range []bool{false, true} {
			if handsOver {
				name += " with handover"
			}
			t.Run(name, func(t *testing.T) {
				var in *intake.Intake
				b := newBench(t.Context(), func(c *nri.Config) {
					if in != nil {
						c.Handover = in
					}
				})
				if b.policy.Moves = moved; handsOver {
					in = intake.New(intake.Config{
						Node: "n7", Listing: func() *handover.Listing { return nil }, Now: b.clock.now, Log: slog.New(slog.DiscardHandler),
					})
					b.plan = in.Plan
				}
				b.start()
				defer b.check(t)
				b.list(guaranteed("other", 2), guaranteed("g", 2))
				b.mustRun(t, "other")
				before := b.plans.Load()
				if _, err := b.sandbox("g"); err != nil {
					t.Fatal(err)
				}
				if n := b.plans.Load() - before; n != 1 {
					t.Errorf("the pod was planned %d times, want once", n)
				}
				if g, _ := b.disk.Load().Grant("g"); g == nil || g.CPUs().Len() != 2 {
					t.Error("the grant of the pod is not durable")
				}
			})
		}
	}
}
