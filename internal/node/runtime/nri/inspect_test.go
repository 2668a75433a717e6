package nri_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// inspected returns a bench whose agent verifies what runs.
func inspected(t *testing.T) *bench {
	t.Helper()
	var b *bench
	b = newBench(t.Context(), func(c *nri.Config) {
		c.Now, c.After = time.Now, time.After
		c.Seen = func(context.Context, map[string]string) ([]nri.Seen, error) { return b.seen() }
	})
	return b
}

// seen returns the containers that run, as the kubelet lists them.
func (b *bench) seen() ([]nri.Seen, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []nri.Seen
	for id, r := range b.runs {
		pod := b.boxes[r.c.GetPodSandboxId()]
		list = append(list, nri.Seen{
			Who: pod.GetNamespace() + "/" + pod.GetName(), Path: r.c.GetLinux().GetCgroupsPath(), Err: b.unreadable, Deleted: b.deleted[pod.GetUid()],
			Observed: converge.Observed{ID: id, Pod: pod.GetUid(), Container: r.c.GetName(), Setting: r.setting},
		})
	}
	return list, b.unseen
}

// drift writes CPUs to the cgroup of a container.
func (b *bench) drift(id, cpus string) {
	set, err := cpuset.Parse(cpus)
	b.broke(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[id].setting.CPUs = set
}

// TestInspect: a running container that does not have its setting is reported within two periods
// and repaired, whatever the reason.
func TestInspect(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(b *bench, app string)
		// why is the text that is reported. If empty, nothing is reported, because the container is
		// repaired in time.
		why string
	}{
		"everything is right":         {func(*bench, string) {}, ""},
		"another process writes once": {func(b *bench, app string) { b.drift(app, "0-7") }, ""},
		"another process writes again and again": {func(b *bench, app string) {
			b.lose = nil
			go func() {
				for range 600 {
					b.drift(app, "0-7")
					pass(50 * time.Millisecond)
				}
			}()
		}, `container app of pod default/x: cpuset.cpus is "0-7", expected "2-3"`},
		"updates fail": {func(b *bench, app string) {
			b.setUpdates(errors.New("the runtime is full"))
			b.drift(app, "0-7")
		}, `container app of pod default/x: cpuset.cpus is "0-7", expected "2-3"`},
		"cgroups cannot be read": {func(b *bench, _ string) { b.setUnreadable(errors.New("input/output error")) }, "input/output error"},
		"a container has ended, and the kubelet lists it for a while": {func(b *bench, _ string) { b.setUnreadable(fs.ErrNotExist) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inspected(t)
				b.start()
				b.list(guaranteed("x", 2))
				b.mustRun(t, "x")
				pass(15 * time.Second)
				c.breaks(b, b.of("x")[0])
				pass(20 * time.Second)
				got := b.plugin.Status().Verified()
				if c.why == "" && got != nil || c.why != "" && (got == nil || !strings.Contains(got.Error(), c.why)) {
					t.Errorf("verified: %v, want %q", got, c.why)
				}
				if c.why != "" && (b.unverified() == 0 || !strings.Contains(b.said.String(), "does not have the CPUs, memory nodes or quota")) {
					t.Errorf("%d are counted; the log: %s", b.unverified(), b.said.String())
				}
				b.setUpdates(nil)
				b.setUnreadable(nil)
				pass(time.Minute)
				if err := b.plugin.Status().Verified(); err != nil || b.unverified() != 0 {
					t.Errorf("in the end: %v, %d", err, b.unverified())
				}
				b.want(t, "in the end", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}"})
				b.check(t)
			})
		})
	}
}

// TestInspectFindsWhatNoRequestNamed: a container that runs gets its CPUs even if the runtime
// reported neither it nor its pod.
func TestInspectFindsWhatNoRequestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inspected(t)
		b.start()
		b.list(guaranteed("x", 2))
		link := b.link
		b.link = nil
		b.mustRun(t, "x")
		b.link = link
		pass(15 * time.Second)
		b.want(t, "found", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}"})
		pass(time.Minute)
		if err := b.plugin.Status().Verified(); err != nil || b.unverified() != 0 {
			t.Errorf("in the end: %v", err)
		}
		if said := b.said.String(); !strings.Contains(said, "a container runs that the runtime did not report") {
			t.Errorf("the log does not name it: %s", said)
		}
		b.check(t)
	})
}

// TestInspectWithoutAList: a list that cannot be read does not count as a finding.
func TestInspectWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inspected(t)
		b.start()
		b.list(guaranteed("x", 2))
		b.mustRun(t, "x")
		b.mu.Lock()
		b.unseen = errors.New("the kubelet does not answer")
		b.mu.Unlock()
		pass(time.Minute)
		if err := b.plugin.Status().Verified(); err != nil {
			t.Error(err)
		}
		b.check(t)
	})
}

// setUnreadable makes reads of cgroups fail with err. If nil, they succeed.
func (b *bench) setUnreadable(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unreadable = err
}

// setUnwritable makes writes of cgroups fail with err. If nil, they succeed.
func (b *bench) setUnwritable(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwritable = err
}

func (b *bench) unverified() int {
	b.observed.mu.Lock()
	defer b.observed.mu.Unlock()
	return b.observed.unverified
}

func (b *bench) unsettled() int { return int(b.observed.unsettled.Load()) }

// TestContainersThatStop: while CRI-O stops a container, the agent writes the cgroup of that
// container, and of others whose updates wait. The connection stays.
func TestContainersThatStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inspected(t)
		b.runtime, b.release = "cri-o", "1.36.1"
		b.start()
		b.list(guaranteed("x", 2), burstable("y"), burstable("z"))
		b.mustRun(t, "x", "y", "z")
		pass(15 * time.Second)
		b.mu.Lock()
		b.deleted = map[string]bool{"y": true}
		b.mu.Unlock()
		b.drift(b.of("y")[0], "0-7")
		b.drift(b.of("z")[0], "0-7")
		pass(30 * time.Second)
		b.want(t, "written", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}", "z/web": "0-1,4-7 on {}"})
		if n := strings.Count(b.said.String(), "synchronised with the runtime"); n != 1 {
			t.Errorf("the runtime has synchronised %d times", n)
		}
		b.check(t)
	})
}
