package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// TestOrder: who is there when a container's setting is asked for is who was created before
// it and has not ended.
func TestOrder(t *testing.T) {
	list := containers("init:i1 sidecar:s init:i2 app log")
	var asked []string
	var r *Runtime
	r = New(func(uid, name string) (converge.Setting, error) {
		asked = append(asked, name+" ["+running(r)+"]")
		return setting("1"), nil
	})
	if err := r.StartPod("p", list); err != nil {
		t.Fatal(err)
	}
	same(t, "asked", strings.Join(asked, ", "), "i1 [], s [], i2 [p/s 1], app [p/s 1], log [p/app 1, p/s 1]")
	same(t, "story", story(r, "p", list), "created i1, stopped i1, created s, created i2, stopped i2, created app, created log")
	r.StopPod("p")
	same(t, "stopped", story(r, "p", list), "created i1, stopped i1, created s, created i2, stopped i2, created app, created log, stopped log, stopped app, stopped s")
	same(t, "running", running(r), "")
}

// TestStartThatFails: nothing of the pod stays, the other pod does, and it can be started again.
func TestStartThatFails(t *testing.T) {
	broken := errors.New("no space left")
	for _, c := range []struct {
		name, fails, story string
		byRuntime          bool
	}{
		{"first, at the runtime", "i", "", true},
		{"beside a sidecar, at the runtime", "app", "created i, stopped i, created s, stopped s", true},
		{"at the question", "log", "created i, stopped i, created s, created app, stopped app, stopped s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			refuse := !c.byRuntime
			r := New(func(uid, name string) (converge.Setting, error) {
				if refuse && name == c.fails {
					return converge.Setting{}, broken
				}
				return setting("0"), nil
			})
			if err := r.StartPod("other", containers("log")); !refuse && err != nil {
				t.Fatal(err)
			}
			before := running(r)
			if c.byRuntime {
				r.FailNextCreate("p", c.fails, broken)
			}
			list := containers("init:i sidecar:s app log")
			err := r.StartPod("p", list)
			if !errors.Is(err, broken) || !strings.Contains(fmt.Sprint(err), "container "+c.fails+" of pod p") {
				t.Errorf("error %v", err)
			}
			same(t, "running", running(r), before)
			same(t, "story", story(r, "p", list), c.story)
			refuse = false
			if err := r.StartPod("p", list); err != nil || len(r.Observe()) < 3 {
				t.Errorf("again: %v, running %s", err, running(r))
			}
		})
	}
}

func TestWrongLists(t *testing.T) {
	r := New(always("0"))
	for list, want := range map[string]string{"a a": "two have this name", "a init:i": "init container", "a sidecar:i": "init container"} {
		if err := r.StartPod("p", containers(list)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", list, err)
		}
	}
	same(t, "running", running(r), "")
}

// TestLifecycle is one pod's life, a line a step.
func TestLifecycle(t *testing.T) {
	cpus := "0-1"
	r := New(func(string, string) (converge.Setting, error) { return setting(cpus), nil })
	list := containers("init:i app")
	for _, c := range []struct {
		what    string
		do      func() error
		is      error
		running string
	}{
		{"stop what is not there", func() error { return r.StopContainer("p", "app") }, ErrNotRunning, ""},
		{"restart what is not there", func() error { return r.RestartContainer("p", "app") }, ErrNotRunning, ""},
		{"drift of what is not there", func() error { return r.Drift("p", "app", setting("0")) }, ErrNotRunning, ""},
		{"start", func() error { return r.StartPod("p", list) }, nil, "p/app 0-1"},
		{"start twice", func() error { return r.StartPod("p", list) }, ErrRuns, "p/app 0-1"},
		{"the setting of a restart is asked anew", func() error { cpus = "2"; return r.RestartContainer("p", "app") }, nil, "p/app 2"},
		{"an init container runs again and ends", func() error { return r.RestartContainer("p", "i") }, nil, "p/app 2"},
		{"it ends", func() error { return r.StopContainer("p", "app") }, nil, ""},
		{"it is restarted", func() error { cpus = "3"; return r.RestartContainer("p", "app") }, nil, "p/app 3"},
		{"a restart that fails leaves it stopped", func() error {
			r.FailNextCreate("p", "app", errTorn)
			return r.RestartContainer("p", "app")
		}, errTorn, ""},
		{"the next one works", func() error { return r.RestartContainer("p", "app") }, nil, "p/app 3"},
		{"stop", func() error { r.StopPod("p"); r.StopPod("p"); return nil }, nil, ""},
	} {
		if err := c.do(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.what, err)
		}
		same(t, c.what, running(r), c.running)
	}
	same(t, "story", story(r, "p", list), "created i, stopped i, created app, stopped app, created app, created i, stopped i, stopped app, created app, stopped app, created app, stopped app")
	if err := r.RestartContainer("p", "app"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a stopped pod: %v", err)
	}
}

var errTorn = errors.New("torn")

// TestQuestionMayAct: whoever is asked may use the runtime, and even stop the pod.
func TestQuestionMayAct(t *testing.T) {
	var r *Runtime
	var inner error
	r = New(func(uid, name string) (converge.Setting, error) {
		switch uid + "/" + name {
		case "p/b":
			r.StopPod("p")
		case "q/b":
			inner = r.RestartContainer("q", "a")
		}
		return setting("0"), nil
	})
	if err := r.StartPod("p", containers("a b")); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "container b of pod p") {
		t.Errorf("error %v", err)
	}
	same(t, "running", running(r), "")
	if err := r.StartPod("q", containers("a b")); err != nil || !errors.Is(inner, ErrRuns) {
		t.Errorf("errors %v, %v", err, inner)
	}
	if err := r.RestartContainer("q", "c"); err == nil {
		t.Error("a container was restarted that the pod does not have")
	}
}

// TestMeanwhile: what was started while a question was open is not touched by what waited for
// the answer.
func TestMeanwhile(t *testing.T) {
	var r *Runtime
	var inner error
	act := func() error { return nil }
	r = New(func(uid, name string) (converge.Setting, error) {
		once := act
		if name == "b" {
			act = func() error { return nil }
			inner = once()
		}
		return setting("0"), nil
	})
	act = func() error { r.StopPod("p"); return r.StartPod("p", containers("a b")) }
	if err := r.StartPod("p", containers("a b")); !errors.Is(err, ErrNotRunning) || inner != nil {
		t.Errorf("start: errors %v, %v", err, inner)
	}
	same(t, "after the start", running(r), "p/a 0, p/b 0")
	act = func() error { return r.RestartContainer("p", "b") }
	if err := r.RestartContainer("p", "b"); !errors.Is(err, ErrRuns) || inner != nil {
		t.Errorf("restart: errors %v, %v", err, inner)
	}
	same(t, "after the restart", running(r), "p/a 0, p/b 0")
}

// TestConcurrent is for the race detector; at the end nothing is left.
func TestConcurrent(t *testing.T) {
	r := New(always("0-3"))
	var all sync.WaitGroup
	for i := range 4 {
		uid := fmt.Sprintf("p%d", i%3) // two share a pod
		all.Go(func() {
			for range 100 {
				_ = r.StartPod(uid, containers("init:i sidecar:s a b"))
				r.LoseNextUpdate(uid, "a")
				_ = r.RestartContainer(uid, "a")
				var updates []converge.Update
				for _, o := range r.Observe() {
					updates = append(updates, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: setting("1")})
				}
				_ = r.Update(updates)
				_ = r.Drift(uid, "b", setting("2"))
				r.History(uid, "a")
				r.StopPod(uid)
			}
		})
	}
	all.Wait()
	for i := range 3 {
		r.StopPod(fmt.Sprintf("p%d", i))
	}
	same(t, "running", running(r), "")
}
