package nri_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// The schedules of this file were found by the concurrent histories of runtime/sim.

// A container that is always put elsewhere costs an old runtime fewer and fewer connections.
func TestUpdateThatNeverLastsOnAnOldRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.start()
		b.list(guaranteed("x", 2), burstable("y"))
		b.mustRun(t, "x", "y")
		y, ended := b.of("y")[0], 0
		for begin := time.Now(); time.Since(begin) < time.Hour; ended++ {
			b.mu.Lock()
			b.runs[y].setting = converge.Setting{CPUs: cpuset.Of(7)}
			b.mu.Unlock()
			<-b.link.ended
			b.link = nil
			b.connect()
		}
		if ended < 10 || ended > 25 { // Some 400 with a wait that stays the same.
			t.Errorf("the connection was closed %d times in an hour", ended)
		}
		pass(time.Minute)
		b.want(t, "in the end", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
		b.check(t)
	})
}

// The runtime takes 3 s to carry a reply out, and meanwhile the cgroup of a container shows what it had before. What the
// reply gives it counts all the same.
func TestReplyThatIsCarriedOutLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.start()
		b.list(guaranteed("g", 2), burstable("y"), burstable("z"), guaranteed("h", 2))
		b.mustRun(t, "g", "y", "z")
		b.stop("g")
		b.unlist("g")
		pass(time.Second) // It is released, and y is owed its CPUs.
		b.between = func() { pass(3 * time.Second) }
		b.stop("z")
		b.between = nil
		b.mustRun(t, "h")
		b.want(t, "h runs", map[string]string{"h/app": "2-3 on {0} no quota", "h/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
		b.check(t)
	})
}

// A pod comes back while its release waits for a disk that stalls, and its CPUs are planned for another pod already. It
// does not run on them.
func TestComesBackWhileItsReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 3), guaranteed("w", 4), guaranteed("y", 3))
		b.mustRun(t, "x", "w")
		b.stop("x")
		b.unlist("x")
		stall := make(chan struct{})
		b.stall.Store(&stall)
		pass(15 * time.Second) // x is released, and that is not written.
		if err := b.run("y"); err == nil {
			t.Fatal("y was admitted without the disk")
		}
		b.list(guaranteed("x", 3))
		if err := b.run("x"); err == nil || len(b.of("x")) > 0 {
			t.Errorf("error %v: x runs on CPUs that y is to get", err)
		}
		b.stall.Store(nil)
		close(stall)
		pass(time.Second)
		b.mustRun(t, "y")
		b.apart()
		b.check(t)
	})
}

// A container runs on nothing but a CPU that another one is to own, and the reply to Synchronize changes both: it
// leaves first.
func TestLeavesBeforeTheOwnerComes(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(burstable("y"), guaranteed("x", 2))
	b.mustRun(t, "y")
	b.disconnect()
	b.runs[b.of("y")[0]].setting = converge.Setting{CPUs: cpuset.Of(2)}
	b.mustRun(t, "x")
	b.connect()
	b.want(t, "synchronised", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
	b.check(t)
}

// A container is created and not started yet, so it has no cgroup, and its pod is listed no more. It may start at any
// time: its CPUs stay its own until it has ended.
func TestReleaseBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2))
		box, c := sandboxOf("x"), &api.Container{Id: "c", PodSandboxId: "box-of-x", Name: "app", Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/podx/c"}}
		b.broke(b.plugin.RunPodSandbox(b.ctx, box))
		_, _, err := b.plugin.CreateContainer(b.ctx, box, c)
		b.broke(err)
		b.broke(b.plugin.PostCreateContainer(b.ctx, box, c))
		b.unlist("x")
		pass(90 * time.Second)
		if _, kept := b.engine.State().Grant("x"); !kept {
			t.Error("the CPUs of a container that may start are free")
		}
		_, err = b.plugin.StopContainer(b.ctx, box, c)
		b.broke(err)
		b.broke(b.plugin.RemoveContainer(b.ctx, box, c))
		b.broke(b.plugin.StopPodSandbox(b.ctx, box))
		b.broke(b.plugin.RemovePodSandbox(b.ctx, box))
		pass(90 * time.Second)
		if _, kept := b.engine.State().Grant("x"); kept {
			t.Error("the CPUs of a container that has ended are not free")
		}
		b.check(t)
	})
}
