package sim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// TestLife: a few pods start in order, have their CPUs, restart and end.
func TestLife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.follow(sharing("web"))
		w.follow(sharing("web"), exclusive("db", 2))
		same(t, "running", w.running(), "db/app 1-2, db/log 0,3-7, web/web 0,3-7")
		same(t, "history of init", fmt.Sprint(w.runtime.History("db", "init")), "[created cpus 1-2 without quota stopped cpus 1-2 without quota]")
		same(t, "history of web", fmt.Sprint(w.runtime.History("web", "web")), "[created cpus 0-7 without quota updated cpus 0,3-7 without quota]")
		w.follow(sharing("web"))
		same(t, "one is gone", w.running(), "web/web 0-7")
		w.follow(sharing("web"), exclusive("db", 2))
		for _, err := range []error{
			w.kubelet.RestartContainer(t.Context(), "db", "app"), w.kubelet.StopContainer(t.Context(), "web", "web"),
			w.kubelet.RestartContainer(t.Context(), "db", "init"), w.kubelet.RestartPod(t.Context(), "db"),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		wait(time.Second)
		same(t, "restarted", w.running(), "db/app 1-2, db/log 0,3-7")
		if err := w.kubelet.StopContainer(t.Context(), "none", "app"); !errors.Is(err, sim.ErrNotRunning) {
			t.Errorf("error %v, want ErrNotRunning", err)
		}
		w.follow()
		same(t, "all are gone", w.running(), "")
		same(t, "pods with a grant", fmt.Sprint(len(w.engine.State().Grants())), "0")
	})
}

// TestRejection: the error is kept for display, and the pod is tried again when there is room.
func TestRejection(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.follow(exclusive("first", 5), exclusive("late", 4))
		status := w.kubelet.Status()
		if len(status) != 2 || !status[0].Running || status[1].Running || !errors.Is(status[0].Err, nil) ||
			status[1].Err == nil || !strings.Contains(status[1].Err.Error(), "paddock rejects the pod default/late") {
			t.Errorf("status %+v", status)
		}
		if n := strings.Count(w.log(), "pod not started"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		wait(10 * time.Second) // The waits have grown.
		w.kubelet.Follow([]request.Pod{exclusive("late", 4)}, nil)
		wait(time.Second)
		same(t, "a second later", w.running(), "late/app 4-7, late/log 0-3")
	})
}

// TestListing: pods are listed from Follow on, until they should not run any more.
func TestListing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		go func() {
			wait(500 * time.Millisecond)
			w.kubelet.Follow([]request.Pod{sharing("web")}, nil)
		}()
		pods, err := w.kubelet.List(t.Context())
		if err != nil || len(pods) != 1 {
			t.Errorf("%v, %v", pods, err)
		}
		if _, err := w.kubelet.Lookup(t.Context(), "db"); !errors.Is(err, sim.ErrUnknownPod) {
			t.Errorf("error %v, want ErrUnknownPod", err)
		}
		partial := errors.New("a manifest is missing")
		w.kubelet.Follow(nil, partial)
		if _, err := w.kubelet.List(t.Context()); !errors.Is(err, partial) {
			t.Errorf("error %v, want that of the set", err)
		}
		wait(time.Minute)
		same(t, "nothing ends while manifests are missing", w.running(), "web/web 0-7")
		for _, c := range []struct {
			fault sim.Fault
			pods  int
			err   error
		}{{sim.Fault{Lose: true}, 0, nil}, {sim.Fault{Err: errTorn}, 0, errTorn}, {sim.Fault{Delay: time.Second}, 1, nil}} {
			w.kubelet.Follow([]request.Pod{sharing("web")}, nil)
			w.breaks(func(s sim.Step) sim.Fault {
				if s.Point == sim.Listing {
					return c.fault
				}
				return sim.Fault{}
			})
			if pods, err := w.kubelet.List(t.Context()); len(pods) != c.pods || !errors.Is(err, c.err) {
				t.Errorf("%+v: %v, %v", c.fault, pods, err)
			}
			w.breaks(nil)
		}
	})
}

var errTorn = errors.New("torn")

// TestLateAnswer: a plugin that answers after the request timeout is disconnected, and the pod
// starts without it. The plugin connects again and repairs the containers that it finds. If the
// plugin is required, the container waits.
func TestLateAnswer(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required ", required), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.follow(sharing("web"))
				w.breaks(once(sim.Fault{Delay: 3 * time.Second}, func(s sim.Step) bool { return s.Point == sim.Listing && s.Pod != "" }))
				w.kubelet.Follow([]request.Pod{sharing("web"), exclusive("db", 2)}, nil)
				wait(time.Minute)
				same(t, "running", w.running(), "db/app 1-2, db/log 0,3-7, web/web 0,3-7")
			}, func(c *sim.Config) {
				c.RequestTimeout = 500 * time.Millisecond
				if required {
					c.Required = []string{"paddock"}
				}
			})
		})
	}
}

// TestRequired: without the plugin a sandbox is created, and no container.
func TestRequired(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := sim.New(t.Context(), sim.Config{Now: time.Now, After: time.After, Required: []string{"paddock"}})
		defer r.Close()
		id, err := r.RunPodSandbox(t.Context(), sim.SandboxOf(sharing("web")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.CreateContainer(t.Context(), id, "web", sim.Resources{}); err == nil || !strings.Contains(err.Error(), `required NRI plugin "paddock"`) {
			t.Errorf("error %v", err)
		}
	})
}

// TestCreationInProgress: a container is not created on CPUs on which another container may run
// that is being created and that no update reaches yet. It is created later.
func TestCreationInProgress(t *testing.T) {
	ignored := 0
	bubble(t, func(t *testing.T, w *world) {
		if err := w.runtime.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.breaks(once(sim.Fault{Delay: time.Second}, func(s sim.Step) bool { return s.Point == sim.Storing && s.Pod == "web" }))
		w.kubelet.Follow([]request.Pod{sharing("web")}, nil)
		wait(100 * time.Millisecond)
		w.follow(sharing("web"), exclusive("db", 2))
		for _, pod := range w.kubelet.Status() {
			if !pod.Running {
				t.Errorf("pod %s is not created later: %v", pod.Pod.Name, pod.Err)
			}
		}
	}, func(c *sim.Config) {
		see := c.Observe
		c.Observe = func(e sim.Event) {
			if see(e); e.Kind == sim.Ignored {
				ignored++
			}
		}
	})
	if ignored > 0 {
		t.Errorf("%d updates did not reach their container", ignored)
	}
}
