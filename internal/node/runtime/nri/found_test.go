package nri_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// The concurrent histories of runtime/sim found the schedules of this file.

// A container whose setting is changed again after every update costs an old runtime fewer and
// fewer connections.
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
			b.reconnect()
		}
		if ended < 10 || ended > 25 { // about 400 if the wait stayed the same
			t.Errorf("the connection was closed %d times in an hour", ended)
		}
		pass(time.Minute)
		b.want(t, "in the end", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
		b.check(t)
	})
}

// The runtime takes 3 s to apply a reply. Meanwhile the cgroup of a container shows its earlier
// setting. The setting in the reply counts all the same.
func TestReplyThatIsCarriedOutLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.start()
		b.list(guaranteed("g", 2), burstable("y"), burstable("z"), guaranteed("h", 2))
		b.mustRun(t, "g", "y", "z")
		b.end("g")
		pass(time.Second) // It is released, and an update that gives y its CPUs waits.
		b.between = func() { pass(3 * time.Second) }
		b.stop("z")
		b.between = nil
		b.mustRun(t, "h")
		b.want(t, "h runs", map[string]string{"h/app": "2-3 on {0} no quota", "h/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"})
		b.check(t)
	})
}

// A pod comes back while its release waits for a disk that stalls, and its CPUs are already planned
// for another pod. It must not run on them.
func TestComesBackWhileItsReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 3), guaranteed("w", 4), guaranteed("y", 3))
		b.mustRun(t, "x", "w")
		b.end("x")
		goOn := b.stallDisk()
		pass(15 * time.Second) // x is released, and the release is not written.
		if err := b.run("y"); err == nil {
			t.Fatal("y was admitted without the disk")
		}
		b.list(guaranteed("x", 3))
		if err := b.run("x"); err == nil || len(b.of("x")) > 0 {
			t.Errorf("error %v: x runs on CPUs that y is to get", err)
		}
		goOn()
		pass(time.Second)
		b.mustRun(t, "y")
		b.apart()
		b.check(t)
	})
}

// A container runs only on a CPU that another container is to own, and the reply to Synchronize
// changes both. The container leaves the CPU before the owner gets it.
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

// A container is created and not started yet, so it has no cgroup, and its pod is no longer listed.
// It may start at any time, so its CPUs stay its own until it has ended.
func TestReleaseBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2))
		box, err := b.sandbox("x")
		b.broke(err)
		c := b.container(box, "app")
		b.broke(c.ask())
		b.broke(c.report())
		b.unlist("x")
		pass(90 * time.Second)
		if _, kept := b.engine.State().Grant("x"); !kept {
			t.Error("the CPUs of a container that may start are free")
		}
		c.remove()
		b.stop("x")
		pass(90 * time.Second)
		if _, kept := b.engine.State().Grant("x"); kept {
			t.Error("the CPUs of a container that has ended are not free")
		}
		b.check(t)
	})
}

// stalledCgroups are cgroups whose reads block until the channel is closed. waits counts all reads,
// waiting counts those that block now.
type stalledCgroups struct {
	nri.Cgroups
	wait           chan struct{}
	waits, waiting atomic.Int64
}

func (s *stalledCgroups) Read(path string) (converge.Setting, error) {
	s.waits.Add(1)
	s.waiting.Add(1)
	<-s.wait
	s.waiting.Add(-1)
	return s.Cgroups.Read(path)
}

// Reading a cgroup stalls while it is not known which CPUs a container has. Requests are answered
// in time, as if the container had all CPUs that it may have, and waiting threads do not pile up.
func TestStalledCgroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &stalledCgroups{wait: make(chan struct{})}
		b := newBench(t.Context(), func(c *nri.Config) {
			c.Now, c.After = time.Now, time.After
			files.Cgroups, c.Cgroups = c.Cgroups, files
		})
		b.start()
		b.list(burstable("y"), guaranteed("x", 2), guaranteed("w", 2), guaranteed("v", 2))
		b.mustRun(t, "y")
		fails := 0
		b.fail = func() bool { fails++; return fails%2 == 1 } // It is not known whether the reply was applied.
		for _, uid := range []string{"x", "w", "v"} {
			begin := time.Now()
			if err := b.run(uid); err != nil || time.Since(begin) > 250*time.Millisecond {
				t.Errorf("pod %s started after %v: %v", uid, time.Since(begin), err)
			}
			if n := files.waiting.Load(); n > 2 {
				t.Errorf("%d reads wait, want one of a request and one of the round at most", n)
			}
			b.apart()
		}
		if files.waits.Load() == 0 {
			t.Error("no cgroup was read")
		}
		b.fail = nil
		close(files.wait)
		pass(time.Minute)
		b.apart()
		b.check(t)
	})
}
