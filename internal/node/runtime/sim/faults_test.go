package sim_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// TestFaults: each fault occurs where it should, and afterwards everything runs as the state has
// it.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault sim.Fault
		fits  func(sim.Step) bool
		sees  string // a word of db/app's history, or of the log
	}{
		{"the creation fails after the reply", sim.Fault{Err: errTorn}, func(s sim.Step) bool { return s.Point == sim.Storing && s.Pod == "db" }, "torn"},
		{"the start fails", sim.Fault{Err: errTorn}, func(s sim.Step) bool { return s.Point == sim.Starting && s.Container == "app" }, "torn"},
		{"the start is slow", sim.Fault{Delay: time.Second}, func(s sim.Step) bool { return s.Point == sim.Starting && s.Container == "app" }, "created cpus 1-2"},
		{"an update is lost", sim.Fault{Lose: true}, func(s sim.Step) bool { return s.Point == sim.Updating }, "created cpus 1-2"},
		{"an update fails", sim.Fault{Err: errTorn}, func(s sim.Step) bool { return s.Point == sim.Updating }, "created cpus 1-2"},
		{"an update hangs", sim.Fault{Delay: 20 * time.Second}, func(s sim.Step) bool { return s.Point == sim.Updating }, "created cpus 1-2"},
		{"the connection ends before the question", sim.Fault{Drop: true}, at(sim.Asking, "CreateContainer"), "created"},
		{"the connection ends after the answer", sim.Fault{Drop: true}, at(sim.Answered, "CreateContainer"), "created"},
		{"the question fails", sim.Fault{Err: errTorn}, at(sim.Asking, "RunPodSandbox"), "torn"},
		{"the kubelet is slow", sim.Fault{Delay: 500 * time.Millisecond}, func(s sim.Step) bool { return s.Point == sim.Listing }, "created cpus 1-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.follow(sharing("web"))
				w.breaks(once(c.fault, c.fits))
				w.follow(sharing("web"), exclusive("db", 2))
				wait(time.Minute)
				same(t, "running", w.running(), "db/app 1-2, db/log 0,3-7, web/web 0,3-7")
				if all := w.log() + fmt.Sprint(w.runtime.History("db", "app")); !strings.Contains(all, c.sees) {
					t.Errorf("want %q in %s", c.sees, all)
				}
			})
		})
	}
}

// TestDriftOnAnOldRuntime: a runtime that accepts updates only in replies reports the setting that
// it last wrote. A cgroup with another setting is repaired all the same, through one new
// connection.
func TestDriftOnAnOldRuntime(t *testing.T) {
	var connections atomic.Int32
	bubble(t, func(t *testing.T, w *world) {
		w.follow(sharing("web"), exclusive("db", 2))
		if err := w.runtime.Drift("db", "app", setting("7")); err != nil {
			t.Fatal(err)
		}
		connections.Store(0)
		wait(30 * time.Second)
		same(t, "running", w.running(), "db/app 1-2, db/log 0,3-7, web/web 0,3-7")
		wait(time.Minute)
		if n := connections.Load(); n != 1 {
			t.Errorf("%d new connections, want 1", n)
		}
	}, func(c *sim.Config) {
		c.Name, c.Version, c.NRIVersion, c.UnknownPods = "containerd", "2.1.4", "v0.8.0", true
		fault := c.Fault
		c.Fault = func(s sim.Step) sim.Fault {
			if s.Point == sim.Registered {
				connections.Add(1)
			}
			return fault(s)
		}
	})
}

// TestEndIsNotReported: a plugin before Paddock fails, and the runtime does not report the end of a
// pod to the plugins after it. The pod's CPUs become free all the same, once the pod is not listed
// and has no cgroups.
func TestEndIsNotReported(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.follow(exclusive("db", 2), sharing("web"))
		wait(20 * time.Second)
		w.breaks(func(s sim.Step) sim.Fault {
			if s.Point == sim.Asking && s.Pod == "db" {
				return sim.Fault{Err: errTorn}
			}
			return sim.Fault{}
		})
		w.follow(sharing("web"))
		wait(2 * time.Minute)
		if _, there := w.engine.State().Grant("db"); there {
			t.Error("db is gone and keeps its CPUs")
		}
		same(t, "running", w.running(), "web/web 0-7")
	})
}

// TestConnectionIsLost: the connection is lost at every point of its begin, and is made again.
func TestConnectionIsLost(t *testing.T) {
	for _, s := range []sim.Step{{Point: sim.Registered}, {Point: sim.Asking, Hook: "Synchronize"}, {Point: sim.Answered, Hook: "Synchronize"}} {
		t.Run(s.Point.String()+" "+s.Hook, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.follow(sharing("web"))
				w.breaks(once(sim.Fault{Drop: true}, at(s.Point, s.Hook)))
				w.runtime.Disconnect()
				w.follow(sharing("web"), exclusive("db", 2))
				wait(time.Minute)
				if err := w.plugin.Ready(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// act is one event in a history, and the wait after it.
type act struct {
	what  int
	pod   int
	cpus  int
	after time.Duration
}

// TestHistories: pods, containers and the connection come and go, updates get lost, containers
// drift. When everything has settled it runs as the state has it, and no container was sent to CPUs
// that another container owns.
func TestHistories(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) act {
		return act{
			what: rapid.IntRange(0, 6).Draw(t, "what"), pod: rapid.IntRange(0, 5).Draw(t, "pod"), cpus: rapid.IntRange(0, 3).Draw(t, "CPUs"),
			after: time.Duration(rapid.IntRange(0, 3000).Draw(t, "milliseconds")) * time.Millisecond,
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		acts := rapid.SliceOfN(gen, 1, 25).Draw(rt, "acts")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t.Context())
			defer w.close()
			w.follow()
			var pods []request.Pod
			for _, a := range acts {
				pods = w.act(a, pods)
				time.Sleep(a.after) //nolint:forbidigo // The clock is the bubble's.
			}
			wait(2 * time.Minute)
			failure = simtest.AtRest(w.engine.State(), w.runtime.Observe())
			if failure == nil {
				failure = w.checker.Err()
			}
			if failure != nil {
				failure = fmt.Errorf("%w\n%s", failure, w.log())
			}
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// act carries out one act, and returns the pods that should run afterwards.
func (w *world) act(a act, pods []request.Pod) []request.Pod {
	uid := fmt.Sprint("p", a.pod)
	name := "app"
	switch a.what {
	case 0, 1:
		for i, p := range pods {
			if p.UID == uid {
				pods = append(pods[:i:i], pods[i+1:]...)
				break
			}
		}
		if a.what == 0 {
			if a.cpus == 0 {
				pods = append(pods, sharing(uid))
			} else {
				pods = append(pods, exclusive(uid, a.cpus))
			}
		}
		w.kubelet.Follow(pods, nil)
	case 2:
		_ = w.kubelet.RestartContainer(w.ctx, uid, name)
	case 3:
		w.runtime.LoseNextUpdate(uid, "web")
	case 4:
		_ = w.runtime.Drift(uid, name, setting("7"))
	case 5:
		w.runtime.Disconnect()
	case 6:
		_ = w.kubelet.RestartPod(w.ctx, uid)
	}
	return pods
}
