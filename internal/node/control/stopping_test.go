package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// TestTrafficThatNeverPauses: pods are created and stopped all the time on CRI-O, so that at every
// moment a container is being stopped. Paddock closes no connection, the runtime never waits for
// the end of a container, and what another process does to a cgroup is repaired within 15 s.
func TestTrafficThatNeverPauses(t *testing.T) {
	w := newWorld(t)
	w.looks = 101
	w.play("runtime crio", "connect", "run stays 0", "run owns 2")
	connections, longest := w.connections, time.Duration(0)
	var drifted time.Time
	var errs []string
	second := func() {
		w.wait(time.Second)
		errs = append(errs, w.errs...)
		w.errs = nil
		if has := w.containerOf("stays").setting.CPUs; !drifted.IsZero() && !has.Intersects(w.containerOf("owns").setting.CPUs) {
			longest, drifted = max(longest, w.now.Sub(drifted)), time.Time{}
		}
	}
	for i := range 200 {
		pod := func(i int) string { return fmt.Sprint("p-", i) }
		w.play(fmt.Sprintf("run %s %d", pod(i), i%3))
		if i >= 1 {
			w.play("terminate " + pod(i-1))
		}
		if i >= 2 {
			w.play("end " + pod(i-2))
		}
		if i%10 == 5 && drifted.IsZero() {
			w.play("drift stays 0-7")
			drifted = w.now
		}
		for range 2 + 20*(i%2) { // There is traffic each 2 s, or each 22 s.
			second()
		}
	}
	errs = slices.DeleteFunc(errs, func(e string) bool { return strings.Contains(e, "may still run on some of them (stopping)") })
	if len(errs) > 0 {
		t.Errorf("%d errors, the first: %s", len(errs), errs[0])
	}
	if w.connections != connections {
		t.Errorf("%d new connections", w.connections-connections)
	}
	if longest == 0 || longest > 15*time.Second || !drifted.IsZero() {
		t.Errorf("a container ran on CPUs of another for %v", longest)
	}
	t.Log("the longest time on CPUs of another container:", longest)
	w.rest()
	if wrong := w.atRest(); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "; "))
	}
}

// TestBlockedWrite: the kernel does not finish a write of a cgroup. That is logged once, and the
// write counts as under way until it ends.
func TestBlockedWrite(t *testing.T) {
	w := newWorld(t)
	w.looks = 101
	w.play("runtime crio", "connect", "run stops 0", "run owns 2", "terminate stops", "drift stops 0-7")
	w.blocks = true
	expect := func(cpus string, alerts int) {
		t.Helper()
		logged := slices.DeleteFunc(slices.Clone(w.alerts), func(text string) bool { return !strings.Contains(text, "the kernel does not finish") })
		if has := w.containerOf("stops").setting.CPUs.String(); has != cpus || len(logged) != alerts {
			t.Errorf("it runs on %s, want %s; %d times logged, want %d: %q", has, cpus, len(logged), alerts, w.alerts)
		}
	}
	w.wait(landing) // The write begins at the next comparison.
	expect("0-7", 0)
	w.wait(2 * time.Minute)
	expect("0-7", 1)
	w.blocks = false
	w.wait(time.Minute)
	expect("0-1,4-7", 1)
}

// TestOneWriteFails: what a container has whose cgroup was written is known, although the write of
// another one failed.
func TestOneWriteFails(t *testing.T) {
	w := newWorld(t)
	w.looks = 101
	w.play("runtime crio", "connect", "run one 0", "run two 0", "run owns 2", "terminate one", "terminate two", "drift one 0-7", "drift two 0-7")
	w.blocks = true
	w.wait(landing)
	i := slices.IndexFunc(w.held, func(a any) bool { _, is := a.(WriteCgroups); return is })
	write, is := w.held[i].(WriteCgroups)
	if w.held = slices.Delete(w.held, i, i+1); !is || len(write.Updates) != 2 {
		t.Fatalf("%d updates", len(write.Updates))
	}
	one, two := w.containerOf("one").id, w.containerOf("two").id
	w.step(write.Carry(func(path string, s converge.Setting) error {
		if path == one {
			return errDisk
		}
		return w.writeCgroup(path, s)
	}))
	if a, b := w.loop.containers.get(one).phase, w.loop.containers.get(two).phase; a == settled || b != settled {
		t.Errorf("the phases are %v and %v", a, b)
	}
	w.blocks = false
	w.wait(time.Minute)
	if has := w.containerOf("one").setting.CPUs.String(); has != "0-1,4-7" {
		t.Errorf("it runs on %s", has)
	}
}
