package nri_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// Pods that start while the agent is away are planned, and containers that run unpinned are
// repaired, in the reply to Synchronize.
func TestAwayAndBack(t *testing.T) {
	for name, restart := range map[string]bool{"connection lost": false, "agent restarted": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t.Context())
			b.start()
			defer b.check(t)
			b.list(guaranteed("g", 2), burstable("b"), guaranteed("h", 2))
			b.mustRun(t, "g")
			kept := b.shown()["g/app"]
			b.disconnect()
			b.mustRun(t, "b", "h")
			b.want(t, "away", map[string]string{"g/app": kept, "g/log": b.shown()["g/log"], "b/web": " on {}", "h/app": " on {}", "h/log": " on {}"})
			b.clock.pass(90 * time.Second)
			if restart {
				b.boot()
				b.clock.pass(time.Second)
			}
			b.connect()
			if got := b.shown()["g/app"]; got != kept {
				t.Errorf("a running container moved from %s to %s", kept, got)
			}
			b.want(t, "back", map[string]string{"g/app": kept, "g/log": "0-1,6-7 on {0}", "b/web": "0-1,6-7 on {}", "h/app": "4-5 on {1} no quota", "h/log": "0-1,6-7 on {1}"})
			away := 90 * time.Second
			if restart {
				away = time.Second
			}
			if b.observed.away != away || b.observed.repaired != 4 {
				t.Errorf("away for %v, %d containers repaired; want %v and 4", b.observed.away, b.observed.repaired, away)
			}
			if said := b.said.String(); !strings.Contains(said, "[default/b default/h]") {
				t.Errorf("it is not said which pods were started without us: %s", said)
			}
		})
	}
}

// Pods that are gone when the agent comes back are released.
func TestGoneWhileAway(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	b.disconnect()
	b.end("g")
	b.boot()
	b.plugin.Reconcile(t.Context())
	if n := len(b.engine.State().Grants()); n != 1 {
		t.Errorf("%d pods hold something before anybody knows what runs, want 1", n)
	}
	b.connect()
	b.plugin.Reconcile(t.Context())
	if n := len(b.engine.State().Grants()); n != 0 {
		t.Errorf("%d pods hold something, want none", n)
	}
}

// The source is not available when the agent comes back. Containers that run unpinned are planned
// when it is.
func TestSourceComesLater(t *testing.T) {
	b := newBench(t.Context())
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	b.deaf = context.DeadlineExceeded
	b.start()
	defer b.check(t)
	b.want(t, "without a source", map[string]string{"g/app": "0-7 on {}", "g/log": "0-7 on {}"})
	b.deaf = nil
	if !b.plugin.Reconcile(t.Context()) {
		t.Error("nothing is expected soon, although the reply is still on its way")
	}
	b.clock.pass(3 * time.Second)
	b.plugin.Reconcile(t.Context())
	b.want(t, "with one", map[string]string{"g/app": "2-3 on {0} no quota", "g/log": "0-1,4-7 on {0}"})
}

// TestUnplannedOnce: a running pod that cannot be planned is logged once for each reason, not in
// each round.
func TestUnplannedOnce(t *testing.T) {
	b := newBench(t.Context())
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	b.deaf = context.DeadlineExceeded
	b.start()
	defer b.check(t)
	logged := func() int { return strings.Count(b.said.String(), "a running pod cannot be planned yet") }
	rounds := func(want int, when string) {
		t.Helper()
		for range 5 {
			b.clock.pass(3 * time.Second)
			b.plugin.Reconcile(t.Context())
		}
		if got := logged(); got != want {
			t.Errorf("%s: logged %d times, want %d", when, got, want)
		}
	}
	rounds(1, "the source does not answer")
	b.deaf = context.Canceled
	rounds(2, "for another reason")
	b.deaf = nil
	rounds(2, "it answers")
}

// TestRepairIsReportedSoon: the look after Synchronize confirms that the containers were repaired.
func TestRepairIsReportedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.list(guaranteed("x", 2))
		b.mustRun(t, "x")
		b.start()
		b.want(t, "repaired", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}"})
		pass(200 * time.Millisecond)
		if left := b.plugin.Status().Unenforced; len(left) > 0 {
			t.Errorf("not reported after 200 ms: %v", left)
		}
		b.check(t)
	})
}

// Containers that an unknown manager pinned count as the kubelet's, unless TakeOver is set.
func TestPinnedByOthers(t *testing.T) {
	for _, takeOver := range []bool{false, true} {
		b := newBench(t.Context(), func(c *nri.Config) { c.TakeOver = takeOver })
		b.list(burstable("b"))
		b.mustRun(t, "b")
		b.runs[b.of("b")[0]].setting = converge.Setting{CPUs: cpuset.Of(0, 7)}
		b.start()
		if unmanaged := b.plugin.Ready() != nil; unmanaged == takeOver {
			t.Errorf("take over %v: Ready says %v", takeOver, b.plugin.Ready())
		}
		want := "0,7 on {}"
		if takeOver {
			want = "0-7 on {}"
		}
		b.want(t, "pinned by others", map[string]string{"b/web": want})
		b.check(t)
	}
}

// An old runtime never gets unsolicited updates. The next reply contains them.
func TestOldRuntime(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	if _, err := b.plugin.Configure(t.Context(), "", "containerd", "1.7.27"); err != nil {
		t.Fatal(err)
	}
	b.list(guaranteed("g", 2), burstable("b"), burstable("c"))
	b.mustRun(t, "g", "b")
	b.end("g")
	b.plugin.Reconcile(t.Context())
	if b.link.sent != 0 || b.shown()["b/web"] == "0-7 on {}" {
		t.Errorf("%d updates were sent to a runtime that may hang on them", b.link.sent)
	}
	if n := b.unsettled(); n != 1 {
		t.Errorf("%d containers are unsettled, want b's", n)
	}
	b.mustRun(t, "c")
	b.want(t, "in the next reply", map[string]string{"b/web": "0-7 on {}", "c/web": "0-7 on {}"})
	b.plugin.Reconcile(t.Context())
	if n := b.unsettled(); n != 0 {
		t.Errorf("%d containers are unsettled in the end", n)
	}
}

func TestTakesUpdates(t *testing.T) {
	for _, c := range []struct {
		runtime, release, nri string
		want                  bool
	}{
		{"containerd", "2.4.2+unknown", "v0.12.3", true},
		{"containerd", "v2.4.0", "", true},
		{"containerd", "v2.4.0-rc.1", "v0.12.1", false},
		{"containerd", "2.3.3", "v0.12.0", false},
		{"containerd", "1.7.30", "v0.12.1", false},
		{"containerd", "", "v0.12.1", false},
		{"cri-o", "1.35.0", "v0.11.0", false},
		{"cri-o", "1.37.0", "v0.12.1", true},
		{"cri-o", "1.37.0", "unknown", false},
		{"", "", "", false},
	} {
		if got := nri.TakesUpdates(c.runtime, c.release, c.nri); got != c.want {
			t.Errorf("%s %s with NRI %s: %v, want %v", c.runtime, c.release, c.nri, got, c.want)
		}
	}
}

// TestEventsOfOldRuntimes: a runtime whose NRI does not know UpdatePodSandbox rejects a plugin that
// subscribes to it. The plugin subscribes to every other event that a session handles.
func TestEventsOfOldRuntimes(t *testing.T) {
	var handled api.EventMask
	for i := range reflect.TypeFor[handler]().NumMethod() {
		switch name := reflect.TypeFor[handler]().Method(i).Name; name {
		case "Configure", "Synchronize":
		default:
			handled |= api.MustParseEventMask(name)
		}
	}
	early := handled
	early.Clear(api.Event_UPDATE_POD_SANDBOX)
	if early == handled {
		t.Fatal("a session does not handle UpdatePodSandbox")
	}
	for _, c := range []struct {
		runtime, release, nri string
		want                  api.EventMask // 0: all
	}{
		{"containerd", "v1.7.31", "unknown", early},
		{"containerd", "2.1.5", "unknown", early},
		{"containerd", "v2.2.0-rc.0", "unknown", early},
		{"containerd", "v2.2.2", "unknown", 0},
		{"containerd", "2.4.2+unknown", "v0.12.3", 0},
		{"cri-o", "1.34.0", "unknown", early},
		{"cri-o", "1.36.1", "unknown", 0},
		{"other", "1", "v0.9.0", early},
		{"other", "1", "v0.12.3", 0},
	} {
		b := newBench(t.Context())
		b.runtime, b.release, b.nri = c.runtime, c.release, c.nri
		b.start()
		if b.events != c.want {
			t.Errorf("%s %s with NRI %q: subscribed to %s, want %s", c.runtime, c.release, c.nri, b.events.PrettyString(), c.want.PrettyString())
		}
		b.check(t)
	}
}

// An update that gives a neighbour more CPUs is in progress. A pod that is assigned some of them
// meanwhile is rejected with the request to try again. The CPUs that the update gave are taken back
// as soon as it has landed.
func TestLateUpdateNeverOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t.Context())
		b.start()
		b.list(guaranteed("g", 3), burstable("b"), guaranteed("h", 2))
		b.mustRun(t, "g", "b")
		b.end("g")
		goOn := b.stallUpdates()
		rounds := make(chan struct{})
		go func() { b.plugin.Reconcile(t.Context()); close(rounds) }()
		synctest.Wait() // The update that gives b all CPUs is in progress.
		err := b.run("h")
		if err == nil || !strings.Contains(err.Error(), "its CPUs 2-3 are not free yet: container web of pod default/b is being moved away and may still run on some of them (updating)") {
			t.Errorf("error %v: a container was created on CPUs that b is about to get", err)
		}
		goOn()
		<-rounds
		b.want(t, "late", map[string]string{"b/web": "0-1,4-7 on {}"})
		b.mustRun(t, "h")
		b.want(t, "in the end", map[string]string{"b/web": "0-1,4-7 on {}", "h/app": "2-3 on {0} no quota", "h/log": "0-1,4-7 on {0}"})
		b.check(t)
	})
}

// A container is created while it is not known whether the reply to Synchronize was applied. The
// reply sets the CPUs of each container once, and no container that runs on its own CPUs moves.
func TestCreationAfterSynchronize(t *testing.T) {
	for name, lost := range map[string]bool{"the reply was applied": false, "the reply was lost": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t.Context())
			b.start()
			b.list(guaranteed("x", 2), guaranteed("y", 2), guaranteed("z", 1))
			b.mustRun(t, "x")
			b.disconnect()
			b.mustRun(t, "y", "z") // They run on all CPUs.
			b.lost = lost
			b.connect()
			x := b.of("x")[0]
			name := b.runs[x].c.GetName()
			b.exit(x)
			if _, err := b.create(b.box("x"), name); err != nil {
				t.Error(err)
			}
			b.lost = false
			b.plugin.Reconcile(b.ctx)
			b.apart()
			b.want(t, "in the end", map[string]string{
				"x/app": "2-3 on {0} no quota", "x/log": "0,6-7 on {0}", "y/app": "4-5 on {1} no quota", "y/log": "0,6-7 on {1}",
				"z/app": "1 on {0} no quota", "z/log": "0,6-7 on {0}",
			})
			b.check(t)
		})
	}
}

// A container that was created and does not run yet may miss an update, because containerd starts
// it with the setting of its creation. No container is created on its CPUs before it runs on other
// ones.
func TestCreationBeforeAStart(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(burstable("y"), guaranteed("x", 2))
	box, err := b.sandbox("y")
	b.broke(err)
	c := b.container(box, "web")
	b.broke(c.ask())
	b.broke(c.report())
	if err := b.run("x"); err == nil || !strings.Contains(err.Error(), "its CPUs 2-3 are not free yet: container web of pod default/y is being moved away and may still run on some of them (creating)") {
		t.Errorf("created on the CPUs of a container that is about to start: %v", err)
	}
	c.runs() // It starts with the setting of its creation.
	b.broke(c.start())
	b.plugin.Reconcile(b.ctx)
	b.mustRun(t, "x")
	b.apart()
	b.want(t, "in the end", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
	b.check(t)
}
