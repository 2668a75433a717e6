package control

import (
	"testing"
	"time"
)

// TestWithdrawnResize: a pod no longer asks for a resize that was rejected. The resize is no longer
// reported as rejected, once the kubelet's list is certainly newer than the rejection.
func TestWithdrawnResize(t *testing.T) {
	w := newWorld(t)
	w.play("run g 1", "resize g 9")
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 1}, {carriedOut, 0}} {
		w.now = w.now.Add(c.after)
		w.step(LatestListed{Pods: map[string]Latest{"g": {Pod: w.listed["g"]}}})
		if n := len(w.status.Vetoes); n != c.want {
			t.Errorf("%s after the rejection %d resizes are reported as rejected, want %d", c.after, n, c.want)
		}
	}
}
