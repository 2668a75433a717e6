package nri_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// live returns a bench whose agent starts its rounds by itself, in the time of a synctest bubble.
func live(t *testing.T) *bench {
	t.Helper()
	return newBench(t.Context(), func(c *nri.Config) { c.Now, c.After = time.Now, time.After })
}

// pass lets time pass on the clock of the bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // It takes no time.

func sandboxOf(uid string) *api.PodSandbox {
	return &api.PodSandbox{Id: "box-of-" + uid, Uid: uid, Name: uid, Namespace: "default"}
}

// The disk stalls for 10 s. The new pod is rejected within the timeout, everything else is answered
// at once, and the retry after the stall is admitted.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2), guaranteed("w", 2), burstable("y"))
		b.mustRun(t, "w", "y")
		goOn := b.stallDisk()
		box := sandboxOf("x")
		rejected := make(chan error, 1)
		begin := time.Now()
		go func() { rejected <- b.plugin.RunPodSandbox(b.ctx, box) }()
		synctest.Wait()

		for _, uid := range []string{"w", "y"} { // Their containers restart meanwhile.
			if err := b.plugin.RunPodSandbox(b.ctx, b.box(uid)); err != nil {
				t.Errorf("a pod that was admitted before: %v", err)
			}
			again := b.container(b.box(uid), b.runs[b.of(uid)[0]].c.GetName())
			if err := again.ask(); err != nil {
				t.Errorf("a container of a pod that was admitted before: %v", err)
			}
			again.remove()
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("pods that were admitted before waited %v for the disk", took)
		}
		if err := <-rejected; !errors.Is(err, engine.ErrNotWritten) || time.Since(begin) > time.Second {
			t.Errorf("after %v: %v; want that the state is not written, within 1s", time.Since(begin), err)
		}
		if _, visible := b.engine.State().Grant("x"); visible {
			t.Error("a grant that is not durable is visible")
		}
		if err := b.container(box, "app").ask(); err == nil {
			t.Error("a container of a pod without a durable grant was created")
		}
		pass(8 * time.Second)
		goOn()
		synctest.Wait()
		b.mustRun(t, "x")
		b.check(t)
	})
}

// A pod's grant becomes durable after its hook gave up, and the pod never comes again. The grant is
// released.
func TestStalledDiskAndThePodIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2))
		goOn := b.stallDisk()
		if err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("x")); err == nil {
			t.Fatal("admitted without a write")
		}
		goOn()
		synctest.Wait()
		if _, there := b.engine.State().Grant("x"); !there {
			t.Fatal("the write did not go on")
		}
		b.unlist("x")
		pass(time.Minute)
		if n := len(b.engine.State().Grants()); n != 0 {
			t.Errorf("%d pods have a grant", n)
		}
		b.check(t)
	})
}

// A pod that runs and was not listed is adopted while the container of another pod is being created
// on the node shared pool. The adopted pod does not move onto its CPUs before the other one has
// left them.
func TestLateAdoptionDuringACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.hide(guaranteed("x", 2))
		b.list(burstable("y"))
		b.mustRun(t, "x")
		b.start()
		b.mustRun(t, "y")
		again := b.container(b.box("y"), "web")
		if err := again.ask(); err != nil || again.setting.CPUs.String() != "0-7" {
			t.Fatalf("created with %v, %v", again.setting, err)
		}
		b.list(guaranteed("x", 2))
		pass(20 * time.Second) // The creation takes a long time.
		g, adopted := b.engine.State().Grant("x")
		if !adopted {
			t.Fatal("x is not adopted")
		}
		if now := b.shown()["x/app"]; strings.HasPrefix(now, g.Containers[0].CPUs.String()) {
			t.Errorf("x moved onto %s while y is being created there", now)
		}
		if !b.plugin.Status().Unenforced["x"] {
			t.Error("its CPUs are reported as assigned")
		}
		again.runs()
		b.broke(again.report())
		b.broke(again.start())
		pass(20 * time.Second)
		b.apart()
		if now := b.shown()["x/app"]; !strings.HasPrefix(now, g.Containers[0].CPUs.String()) || b.plugin.Status().Unenforced["x"] {
			t.Errorf("x runs on %s, want %s", now, g.Containers[0].CPUs)
		}
		b.check(t)
	})
}

// A runtime that never applies an update is asked to synchronise again. Pods are admitted
// meanwhile.
func TestHangingUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(burstable("y"), guaranteed("x", 2))
		b.mustRun(t, "y")
		goOn := b.stallUpdates()
		b.mu.Lock()
		for _, r := range b.runs {
			r.setting.CPUs = cpuset.Of(0, 1, 2, 3) // Another process wrote to the cgroup.
		}
		b.mu.Unlock()
		pass(5 * time.Second) // The next round finds it, and its update hangs.
		begin := time.Now()
		if err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("x")); err != nil || time.Since(begin) > time.Second {
			t.Errorf("a pod is admitted after %v: %v", time.Since(begin), err)
		}
		ended := b.link.ended
		pass(20 * time.Second)
		if b.plugin.Ready() != nil {
			t.Error("the connection was closed although the runtime asked for nothing: the update may have its lock")
		}
		if err := b.plugin.StopPodSandbox(b.ctx, sandboxOf("y")); err != nil {
			t.Error(err)
		}
		pass(15 * time.Second)
		if b.plugin.Ready() == nil {
			t.Fatal("the connection is still there")
		}
		goOn()
		<-ended
		b.link = nil
		b.connect()
		pass(10 * time.Second)
		b.want(t, "synchronised again", map[string]string{"y/web": "0-1,4-7 on {}"})
		b.check(t)
	})
}

// An unsolicited update is applied after the reply to a creation that was decided later.
func TestOvertakenUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("g", 3), burstable("b"), burstable("c"), guaranteed("h", 2))
		b.mustRun(t, "g", "b")
		goOn := b.stallUpdates()
		b.end("g")
		pass(5 * time.Second) // b is to get all CPUs, and the update waits for the runtime's lock.
		b.mustRun(t, "c")     // The reply gives b all CPUs, too.
		if err := b.run("h"); err == nil {
			t.Error("a container was created on CPUs that b is about to get")
		}
		goOn() // b gets them now.
		pass(10 * time.Second)
		b.mustRun(t, "h")
		b.apart()
		b.want(t, "in the end", map[string]string{"b/web": "0-1,4-7 on {}", "c/web": "0-1,4-7 on {}", "h/app": "2-3 on {0} no quota", "h/log": "0-1,4-7 on {0}"})
		b.check(t)
	})
}

// The reply to Synchronize is lost with its connection. The agent does not assume that any of it
// was applied.
func TestLostSynchronizeReply(t *testing.T) {
	for name, replaced := range map[string]bool{"the same connection": false, "a new connection": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t)
				b.list(guaranteed("x", 2), burstable("y"))
				b.mustRun(t, "x", "y")
				b.lost = true
				b.start()
				if replaced {
					b.disconnect()
					b.connect()
				}
				b.lost = false
				pass(15 * time.Second)
				b.apart()
				b.want(t, "repaired", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
				b.check(t)
			})
		})
	}
}

// A request of a connection that was replaced changes nothing, however late it is answered.
func TestRequestOfAReplacedConnection(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(guaranteed("x", 2))
	old := b.plugin.handler
	b.disconnect()
	b.mustRun(t, "x")
	b.connect()
	before := b.shown()
	if updates, err := old.Synchronize(b.ctx, nil, nil); err == nil || updates != nil {
		t.Errorf("the old connection synchronised: %v, %v", updates, err)
	}
	if err := old.RunPodSandbox(b.ctx, sandboxOf("x")); err == nil {
		t.Error("the old connection is answered")
	}
	if adjust, _, err := old.CreateContainer(b.ctx, sandboxOf("x"), &api.Container{Id: "c", Name: "app"}); err == nil || adjust != nil {
		t.Errorf("the old connection creates a container: %v, %v", adjust, err)
	}
	b.plugin.Reconcile(b.ctx)
	b.want(t, "later", before)
	b.check(t)
}

// On a runtime that accepts no unsolicited updates, a pod that is adopted late gets its CPUs within
// 15 s, through a new connection. Until then they are not reported as assigned.
func TestLateAdoptionOnAnOldRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.hide(guaranteed("x", 2))
		b.list(burstable("y"))
		b.mustRun(t, "x", "y")
		b.start()
		b.list(guaranteed("x", 2))
		begin := time.Now()
		<-b.link.ended // The agent hangs up.
		if _, adopted := b.engine.State().Grant("x"); !adopted || !b.plugin.Status().Unenforced["x"] {
			t.Errorf("adopted: %t; its CPUs are reported as assigned: %t", adopted, !b.plugin.Status().Unenforced["x"])
		}
		b.link = nil
		b.connect()
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		b.want(t, "synchronised", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
		pass(time.Minute)
		if b.plugin.Status().Unenforced["x"] || b.plugin.Ready() != nil {
			t.Errorf("a minute later: %v, unenforced %v", b.plugin.Ready(), b.plugin.Status().Unenforced)
		}
		b.check(t)
	})
}

// On such a runtime, CPUs that become free also come back to the other containers.
func TestFreedCPUsOnAnOldRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.start()
		b.list(guaranteed("g", 2), burstable("y"))
		b.mustRun(t, "g", "y")
		b.end("g")
		begin := time.Now()
		b.reconnect()
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		b.want(t, "synchronised", map[string]string{"y/web": "0-7 on {}"})
		b.check(t)
	})
}

// Paddock does not manage the node while a container of another manager exists. It manages the node
// again by itself when that container is gone.
func TestAsideAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("g", 2), guaranteed("h", 2), burstable("k"))
		b.mustRun(t, "g")
		c := b.container(sandboxOf("k"), "web")
		c.c.Linux.Resources = &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1,7"}}
		if adjust, _, err := b.plugin.CreateContainer(b.ctx, c.box, c.c); adjust != nil || err != nil {
			t.Errorf("answered with %v, %v", adjust, err)
		}
		if err := b.plugin.Status().Unmanaged; err == nil || !strings.Contains(err.Error(), "default/k") {
			t.Errorf("aside: %v; want the pod that is pinned", err)
		}
		b.mustRun(t, "h")
		if got := b.shown()["h/app"]; got != " on {}" {
			t.Errorf("while it stands aside a container is created with %s", got)
		}
		b.wrong = nil // No invariant is guaranteed while another manager is active.
		if _, err := b.plugin.StopContainer(b.ctx, c.box, c.c); err != nil {
			t.Error(err)
		}
		b.reconnect()
		if err := b.plugin.Ready(); err != nil {
			t.Errorf("still aside: %v", err)
		}
		b.apart()
		if got := b.shown()["h/app"]; got != "4-5 on {1} no quota" {
			t.Errorf("what was created meanwhile runs on %s", got)
		}
		b.check(t)
	})
}

// When a runtime synchronises, pods that are gone are released before running pods are adopted.
func TestReleaseBeforeAdoption(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(guaranteed("g", 4), guaranteed("h", 4))
	b.mustRun(t, "g")
	b.disconnect()
	b.end("g")
	b.mustRun(t, "h")
	b.connect()
	b.want(t, "back", map[string]string{"h/app": "4-7 on {1} no quota", "h/log": "0-3 on {1}"})
	b.check(t)
}

// A pod that would be rejected because of a pod that is gone is admitted.
func TestReleaseBeforeRejection(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(guaranteed("g", 4), guaranteed("h", 4))
	b.mustRun(t, "g")
	b.end("g")
	b.mustRun(t, "h")
	b.check(t)
}

// A container that the runtime never reports as created keeps its CPUs for as long as the kubelet
// waits for it.
func TestCreationThatIsNeverReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(burstable("y"), guaranteed("g", 2))
		box, err := b.sandbox("y")
		b.broke(err)
		lost := b.container(box, "web")
		b.broke(lost.ask())
		if phase := b.plugin.Phase(lost.c.GetId()); phase != "creating" {
			t.Errorf("it is %s, want creating", phase)
		}
		if err := b.run("g"); err == nil || !strings.Contains(err.Error(), "may still run on") {
			t.Errorf("created on CPUs that it may run on: %v", err)
		}
		pass(3 * time.Minute)
		b.mustRun(t, "g")
		b.check(t)
	})
}

// The runtime's timeout limits the agent's own.
func TestTimeoutOfTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.link.timeout = 500 * time.Millisecond
		if _, err := b.plugin.Configure(b.ctx, "", "containerd", "2.4.2"); err != nil {
			t.Fatal(err)
		}
		b.slowKubelet = time.Hour
		begin := time.Now()
		err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("x"))
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 250*time.Millisecond {
			t.Errorf("answered after %v with %v, want half of 500ms", took, err)
		}
		b.check(t)
	})
}
