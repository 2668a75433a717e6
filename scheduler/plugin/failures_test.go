package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/scheduler/cluster"
)

// TestFailuresEnd checks that a pod ends on the right node if Filter does not know its devices. Each
// of the other nodes is tried once at most.
func TestFailuresEnd(t *testing.T) {
	const wrong = 4
	w := &world{t: t}
	w.start()
	w.plugin.allocator = nil
	for i := range wrong + 1 {
		name := fmt.Sprint("n", i)
		w.node(name, nil)
		near := "0" // The NUMA node with a reserved CPU has 7 for pods.
		if i == wrong {
			near = "1"
		}
		w.slice(name, map[string]string{"gpu-0": near})
	}
	w.claim("c", nil)
	w.pod("p", map[string]string{"cpus": "8", "claim": "c"})
	failed := 0
	for {
		text := w.outcome("p")
		if strings.Contains(text, "bound to") {
			if want := fmt.Sprint("p: bound to n", wrong, ", CPUs 8-15"); text != want {
				t.Errorf("%s, want %s", text, want)
			}
			break
		}
		if failed++; failed > wrong {
			t.Fatalf("after %d attempts: %s", failed, text)
		}
	}
	if w.plugin.failures.of("uid-p") != nil {
		t.Error("the failures of a bound pod are kept")
	}
}

// TestManyFailures checks that a pod that more nodes reject than are remembered waits, and does not
// try them in turn.
func TestManyFailures(t *testing.T) {
	w := &world{t: t}
	w.start()
	w.plugin.allocator = nil
	w.node("n", nil)
	w.slice("n", map[string]string{"gpu-0": "0"})
	w.claim("c", nil)
	for i := range maxFailures {
		w.plugin.failures.add("uid-p", fmt.Sprint("other-", i), &cluster.At{}, "why")
	}
	w.pod("p", map[string]string{"cpus": "8", "claim": "c"})
	if text := w.outcome("p"); strings.Contains(text, "bound to") {
		t.Fatal(text)
	}
	w.plugin.promises.mu.Lock()
	defer w.plugin.promises.mu.Unlock()
	if w.plugin.promises.byPod["uid-p"] != nil {
		t.Error("another cycle begins")
	}
}

// TestFailures checks what ends a failure, and that their number is bounded.
func TestFailures(t *testing.T) {
	var f failures
	now, changed := &cluster.At{}, &cluster.At{}
	for i := range maxFailures + 10 {
		if all := f.add("p", fmt.Sprint("n", i), now, "why"); all != (i < maxFailures) {
			t.Errorf("failure %d: every failure is remembered: %t", i, all)
		}
	}
	if !f.add("p", "n100", now, "why") {
		t.Error("a failure on a node that is remembered takes the place of another one")
	}
	if n := len(f.of("p")); n != maxFailures {
		t.Errorf("%d failures are remembered", n)
	}
	f.add("q", "n", now, "why")
	f.byPod["q"]["n"] = failure{now, "why", time.Now().Add(-time.Second)}
	if f.of("q") != nil {
		t.Error("a failure does not end")
	}
	f.add("q", "n", changed, "why")
	f.forget("q")
	if f.of("q") != nil || f.byPod["q"] != nil {
		t.Error("a failure is not forgotten")
	}
}
