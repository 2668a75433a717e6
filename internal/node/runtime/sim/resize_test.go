package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// TestResize: the kubelet resizes a running pod. Its containers keep the CPUs that they had at
// first, the other containers leave the CPUs and come back, and the quota that the kubelet writes
// to the pod's cgroup is gone within a second. A rejected resize changes no cgroup, is tried again,
// and ends when the request changes again.
func TestResize(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		step := func(what, want string, pods int) {
			t.Helper()
			w.follow(exclusive("x", pods), sharing("y"))
			same(t, what, w.running(), want)
			if pod, err := w.runtime.Cgroups().Read("/kubepods/podx"); err != nil || pod.Quota != quota.None {
				t.Errorf("%s: the pod's quota is %v, %v", what, pod, err)
			}
		}
		step("at first", "x/app 1-2, x/log 0,3-7, y/web 0,3-7", 2)
		step("more", "x/app 1-3, x/log 0,4-7, y/web 0,4-7", 3)
		step("less", "x/app 1-2, x/log 0,3-7, y/web 0,3-7", 2)
		step("below", "x/app 1-2, x/log 0,3-7, y/web 0,3-7", 1)
		err := w.kubelet.Status()[0].Err
		if err == nil || !strings.Contains(err.Error(), "it was admitted with 2, CPUs 1-2: no resize goes below") || !w.kubelet.Status()[0].Running {
			t.Errorf("the kubelet has %v", err)
		}
		step("as before", "x/app 1-2, x/log 0,3-7, y/web 0,3-7", 2)
		if err := w.kubelet.Status()[0].Err; err != nil {
			t.Errorf("the kubelet has %v", err)
		}
		if err := w.checker.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestResizeWithoutAQuestion: the runtime does not forward UpdatePodSandbox. The resize arrives
// with the container.
func TestResizeWithoutAQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.follow(exclusive("x", 2))
		w.follow(exclusive("x", 3))
		wait(30 * time.Second)
		same(t, "more", w.running(), "x/app 1-3, x/log 0,4-7")
		if why := w.plugin.Status().NoVeto; why == nil || strings.Count(w.log(), "Paddock cannot decide about resizes before the kubelet carries them out") != 1 {
			t.Errorf("the missing veto is reported as %v\n%s", why, w.log())
		}
	}, func(c *sim.Config) { c.SilentPods = true })
}
