package nri_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// A runtime applies the updates of other containers before the resize itself. None of them may take
// CPUs that the resized container is only about to leave.
func TestResizeDuringALateAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.old = true
		b.hide(guaranteed("x", 2))
		b.list(burstable("y"))
		b.mustRun(t, "x", "y")
		b.start()
		b.list(guaranteed("x", 2))
		for range 200 {
			pass(100 * time.Millisecond)
			if _, adopted := b.engine.State().Grant("x"); adopted {
				break
			}
		}
		c := b.runs[b.of("y")[0]].c
		updates, err := b.plugin.UpdateContainer(b.ctx, b.boxes[c.GetPodSandboxId()], c, &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(512)}})
		if err != nil || len(updates) == 0 {
			t.Fatalf("%v, %v", updates, err)
		}
		g, _ := b.engine.State().Grant("x")
		for _, u := range updates {
			if u.GetLinux().GetResources().GetCpu().GetCpus() == g.Containers[0].CPUs.String() {
				t.Errorf("x takes %s before y leaves them", g.Containers[0].CPUs)
			}
		}
	})
}

// A running pod was rejected when it was adopted late. Its request changes, and nothing else does.
// It is decided again.
func TestRejectedPodAsksForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.hide(guaranteed("x", 64))
		b.mustRun(t, "x")
		b.start()
		b.list(guaranteed("x", 64))
		pass(30 * time.Second)
		if _, adopted := b.engine.State().Grant("x"); adopted {
			t.Fatal("64 CPUs were assigned")
		}
		b.list(guaranteed("x", 2))
		pass(30 * time.Second)
		if _, adopted := b.engine.State().Grant("x"); !adopted {
			t.Error("the pod asks for 2 CPUs now, and runs without them")
		}
	})
}

// A pod that is resized is still reported with its CPUs while its container does not have the new
// ones yet, because the CPUs on which it runs are its own.
func TestResizedPodStaysReported(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2), burstable("b"))
	b.mustRun(t, "b", "g")
	b.link.holds(make(chan struct{}))
	pod := guaranteed("g", 3)
	b.list(pod)
	if err := b.plugin.UpdatePodSandbox(t.Context(), b.box("g"), nil, podSizes(pod).message()); err != nil {
		t.Fatal(err)
	}
	if g, _ := b.engine.State().Grant("g"); g.CPUs().Len() != 3 || !strings.HasPrefix(b.shown()["g/app"], "2-3 ") {
		t.Fatalf("it has %s and runs on %s", g.CPUs(), b.shown()["g/app"])
	}
	if out := b.plugin.Status().Unenforced; out["g"] {
		t.Error("the pod is not reported any more")
	}
}
