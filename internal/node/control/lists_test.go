package control

import (
	"strings"
	"testing"
)

// TestListOfEarlierTraces checks that a pod is not rejected because of pods that ended while the
// source of pods was asked which pods are gone: its answer is about what they were before. It is
// asked again, and if pods end each time, the kubelet tries the pod again.
func TestListOfEarlierTraces(t *testing.T) {
	for _, c := range []struct {
		name          string
		earlier, asks int
		admitted      bool
	}{
		{"the answer is about the pod as it is", 0, 1, true},
		{"the pod ended meanwhile", 1, 2, true},
		{"and again", 3, 4, true},
		{"and each time", 100, maxLists, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.play("run gone 4", "hold", "end gone")
			asked := 0
			w.onList = func(a ListGone) Occurrence {
				asked++
				listing := w.listing(a.Traces)
				if asked <= c.earlier {
					listing.Traces = map[string]Trace{"gone": {Sandbox: true}}
				}
				return GoneListed{Of: a, Listing: listing}
			}
			answer := strings.Join(w.command("run", []string{"next", "4"}), "\n")
			_, admitted := w.state.Grant("next")
			if admitted != c.admitted || asked != c.asks {
				t.Errorf("admitted %t after %d lists, want %t after %d:\n%s", admitted, asked, c.admitted, c.asks, answer)
			}
			if !admitted && (!strings.Contains(answer, "tries again") || strings.Contains(answer, "rejects")) {
				t.Errorf("got %q; want that the kubelet tries again", answer)
			}
		})
	}
}
