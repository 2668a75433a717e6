package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// update is one of a container that runs.
func update(t *testing.T, r *Runtime, uid, name string, after converge.Setting) converge.Update {
	t.Helper()
	for _, o := range r.Observe() {
		if o.Pod == uid && o.Container == name {
			return converge.Update{ID: o.ID, Pod: uid, Container: name, Before: o.Setting, After: after}
		}
	}
	t.Fatalf("%s/%s does not run", uid, name)
	return converge.Update{}
}

// TestEmptySetIsRefused: with one such update none is made.
func TestEmptySetIsRefused(t *testing.T) {
	r := New(always("0-3"))
	if err := r.StartPod("p", containers("a b")); err != nil {
		t.Fatal(err)
	}
	for text, empty := range map[string]converge.Setting{"cpuset.cpus in place of 0-3": {Mems: mask.Of(0)}, "cpuset.mems in place of {0}": {CPUs: cpuset.Of(1)}} {
		err := r.Update([]converge.Update{update(t, r, "p", "a", setting("1")), update(t, r, "p", "b", empty)})
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "container b of pod p") {
			t.Errorf("error %v", err)
		}
		same(t, "running", running(r), "p/a 0-3, p/b 0-3")
	}
}

// TestUnmanagedSetsMayBeEmpty: where no CPU is managed, updates of memory have none.
func TestUnmanagedSetsMayBeEmpty(t *testing.T) {
	r := New(func(string, string) (converge.Setting, error) { return converge.Setting{}, nil })
	if err := r.StartPod("p", containers("a")); err != nil {
		t.Fatal(err)
	}
	if err := r.Update([]converge.Update{update(t, r, "p", "a", converge.Setting{Mems: mask.Of(1)})}); err != nil {
		t.Error(err)
	}
	same(t, "history", fmt.Sprint(r.History("p", "a")), "[created updated mems {1}]")
}

// TestUpdateOfWhatEnded: the others are updated, and a container that was made anew keeps what it
// was made with.
func TestUpdateOfWhatEnded(t *testing.T) {
	r := New(always("0-3"))
	if err := r.StartPod("p", containers("a b c")); err != nil {
		t.Fatal(err)
	}
	updates := []converge.Update{update(t, r, "p", "a", setting("1")), update(t, r, "p", "b", setting("2")), update(t, r, "p", "c", setting("3"))}
	if err := errors.Join(r.StopContainer("p", "a"), r.RestartContainer("p", "b")); err != nil {
		t.Fatal(err)
	}
	err := r.Update(updates)
	if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "container a of pod p") || !strings.Contains(err.Error(), "sim-2") {
		t.Errorf("error %v", err)
	}
	same(t, "running", running(r), "p/b 0-3, p/c 3")
}

func TestHistory(t *testing.T) {
	r := New(always("0-3"))
	if err := r.StartPod("p", containers("a")); err != nil {
		t.Fatal(err)
	}
	r.LoseNextUpdate("p", "a")
	lifted := setting("1")
	lifted.LiftQuota = true
	for range 2 {
		if err := r.Update([]converge.Update{update(t, r, "p", "a", lifted)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Drift("p", "a", converge.Setting{CPUs: cpuset.Of(3)}); err != nil {
		t.Fatal(err)
	}
	r.StopPod("p")
	same(t, "history", fmt.Sprint(r.History("p", "a")),
		"[created cpus 0-3 mems {0} lost cpus 1 mems {0} without quota updated cpus 1 mems {0} without quota drifted cpus 3 stopped cpus 3]")
}

// TestHistoryIsBounded: of a container the last events stay, of stopped pods the last ones.
func TestHistoryIsBounded(t *testing.T) {
	r := New(always("0-3"))
	for i := range MaxStopped + 2 {
		uid := fmt.Sprint(i)
		if err := r.StartPod(uid, containers("a")); err != nil {
			t.Fatal(err)
		}
		r.StopPod(uid)
	}
	if len(r.History("1", "a")) != 0 || len(r.History("2", "a")) != 2 || len(r.records.pods) != MaxStopped {
		t.Errorf("%d pods are remembered", len(r.records.pods))
	}
	// A pod that comes back has its history, and is not forgotten while it runs.
	if err := r.StartPod("2", containers("a")); err != nil {
		t.Fatal(err)
	}
	for i := range MaxStopped {
		uid := fmt.Sprint("new", i)
		if err := r.StartPod(uid, containers("a")); err != nil {
			t.Fatal(err)
		}
		r.StopPod(uid)
	}
	for range MaxEvents {
		if err := r.Drift("2", "a", setting("0")); err != nil {
			t.Fatal(err)
		}
	}
	h := r.History("2", "a")
	if len(h) != MaxEvents || h[0].Kind != Drifted || h[0].Sequence >= h[MaxEvents-1].Sequence {
		t.Errorf("%d events, from %v", len(h), h)
	}
}
