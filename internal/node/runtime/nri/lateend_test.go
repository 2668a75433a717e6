package nri_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEndsWhileBusy: the runtime reports the end of a container and of a sandbox while the loop is
// busy for longer than an answer may take. The runtime does not report them again, but the loop
// learns of them all the same.
func TestEndsWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("g", 3), burstable("b"))
		b.mustRun(t, "g", "b")
		ids, box := b.of("g"), sandboxOf("g")
		go b.plugin.Block(b.ctx, 10*time.Second)
		pass(time.Millisecond)
		for i, id := range ids {
			c := b.runs[id].c
			if i%2 == 0 {
				_, err := b.plugin.StopContainer(b.ctx, box, c)
				b.broke(err)
			} else {
				b.broke(b.plugin.RemoveContainer(b.ctx, box, c))
			}
		}
		b.broke(b.plugin.StopPodSandbox(b.ctx, box))
		for _, id := range ids {
			if b.plugin.Phase(id) == "none" {
				t.Fatal("the loop was not busy")
			}
		}
		pass(20 * time.Second)
		for _, id := range ids {
			if phase := b.plugin.Phase(id); phase != "none" {
				t.Errorf("a container that has ended is %s", phase)
			}
		}
	})
}
