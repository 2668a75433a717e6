package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// plugin is a small plugin. It pins every container that is created, gives a resized container CPU
// 3, and delays its answers by wait.
type plugin struct {
	wait    time.Duration
	updates []*api.ContainerUpdate

	mu    sync.Mutex
	asked []string
}

func (p *plugin) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, fmt.Sprintf(format, args...))
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.note("Synchronize %d %d", len(pods), len(containers))
	return nil, nil
}

func (p *plugin) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.note("CreateContainer %s", c.GetName())
	time.Sleep(p.wait) //nolint:forbidigo // The clock is the bubble's.
	a := &api.ContainerAdjustment{}
	a.SetLinuxCPUSetCPUs("1-2")
	return a, p.updates, nil
}

func (p *plugin) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return []*api.ContainerUpdate{pin(c.GetId(), "3")}, nil
}

func (p *plugin) StopContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.note("StopContainer %s", c.GetName())
	return nil, nil
}

func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.note("RemoveContainer %s", c.GetName())
	return nil
}

func pin(id, cpus string) *api.ContainerUpdate {
	u := &api.ContainerUpdate{ContainerId: id}
	u.SetLinuxCPUSetCPUs(cpus)
	return u
}

// connected returns a runtime to which the plugin is connected, the plugin's link, and the ID of a
// sandbox.
func connected(t *testing.T, p *plugin, c sim.Config, options ...stub.Option) (*sim.Runtime, *sim.Link, string) {
	t.Helper()
	c.Now, c.After = time.Now, time.After
	r := sim.New(t.Context(), c)
	link, err := r.Dial(p, "small", "10", options...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = link.Run(t.Context())
	}()
	t.Cleanup(func() {
		r.Close()
		_ = link.Close()
		<-done
	})
	if err := r.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	box, err := r.RunPodSandbox(t.Context(), sim.SandboxOf(sharing("p")))
	if err != nil {
		t.Fatal(err)
	}
	return r, link, box
}

// start creates and starts a container.
func start(t *testing.T, r *sim.Runtime, box, name string) string {
	t.Helper()
	id, err := r.CreateContainer(t.Context(), box, name, sim.Resources{Quota: 200_000, Period: 100_000})
	if err == nil {
		err = r.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestUpdates: the kubelet resizes a container, the plugin updates containers, and the cgroups have
// the expected settings afterwards.
func TestUpdates(t *testing.T) {
	for _, list := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, link, box := connected(t, &plugin{}, sim.Config{ListFailed: list, Fault: func(s sim.Step) sim.Fault {
				if s.Point == sim.Updating && s.Container == "b" {
					return sim.Fault{Err: errTorn}
				}
				return sim.Fault{}
			}})
			a, b := start(t, r, box, "a"), start(t, r, box, "b")
			if err := r.UpdateContainer(t.Context(), a, sim.Resources{CPUs: cpuset.Of(5), Quota: 300_000}); err != nil {
				t.Error(err)
			}
			if s, err := r.Cgroups().Read("/kubepods/burstable/podp/" + a); err != nil || s.CPUs.String() != "3" || s.Quota == quota.None {
				t.Errorf("%+v, %v", s, err)
			}
			failed, err := link.UpdateContainers([]*api.ContainerUpdate{pin("none", "0"), pin(b, "0"), pin(a, "4"), pin(a, "")})
			if list && (err != nil || len(failed) != 1 || failed[0].GetContainerId() != b) || !list && (err == nil || failed != nil) {
				t.Errorf("failed %v, %v", failed, err)
			}
			same(t, "history", fmt.Sprint(r.History("p", "a"), r.History("p", "b")), "[created cpus 1-2 quota 200000 updated cpus 3 quota 300000 updated cpus 4 quota 300000 updated cpus 4 quota 300000] [created cpus 1-2 quota 200000 failed cpus 0 quota 200000]")
			if had, err := r.Cgroups().SetQuota("/kubepods/burstable/podp/"+a, quota.None); !had || err != nil {
				t.Errorf("%t, %v", had, err)
			}
			if _, err := r.Cgroups().Read("/kubepods/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v, want fs.ErrNotExist", err)
			}
		})
	}
}

// TestFailurePolicy: after a late answer the request continues without the plugin, unless the
// plugin's failure policy stops it.
func TestFailurePolicy(t *testing.T) {
	for _, policy := range []*api.FailurePolicy{{}, {FailRequest: true}, {FailRequest: true, KeepConnected: true}} {
		synctest.Test(t, func(t *testing.T) {
			p := &plugin{wait: 3 * time.Second}
			r, _, box := connected(t, p, sim.Config{}, stub.WithFailurePolicy(policy))
			_, err := r.CreateContainer(t.Context(), box, "a", sim.Resources{})
			if (err != nil) != policy.GetFailRequest() {
				t.Errorf("%v: error %v", policy, err)
			}
			wait(3 * time.Second) // The plugin has returned from the first call.
			p.wait = 0
			id, err := r.CreateContainer(t.Context(), box, "b", sim.Resources{})
			if err != nil || r.StartContainer(t.Context(), id) != nil {
				t.Fatal(err)
			}
			if pinned := !r.Observe()[0].CPUs.IsEmpty(); pinned != policy.GetKeepConnected() {
				t.Errorf("%v: the next container is pinned: %t", policy, pinned)
			}
		})
	}
}

// TestUndo: a plugin is notified of the end of a container whose creation failed after its reply,
// and its updates stay.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plugin{}
		r, _, box := connected(t, p, sim.Config{})
		a := start(t, r, box, "a")
		p.updates = []*api.ContainerUpdate{pin(a, "0")}
		r.FailNextCreate("p", "b", errTorn)
		if _, err := r.CreateContainer(t.Context(), box, "b", sim.Resources{}); !errors.Is(err, errTorn) {
			t.Errorf("error %v", err)
		}
		same(t, "asked", strings.Join(p.asked, ", "), "Synchronize 0 0, CreateContainer a, CreateContainer b, StopContainer b, RemoveContainer b")
		same(t, "a", r.Observe()[0].CPUs.String(), "0")
	})
}

// TestHistoryIsBounded: the history has the last events of a container, and the pods that were
// stopped last.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, box := connected(t, &plugin{}, sim.Config{})
		start(t, r, box, "a")
		for range sim.MaxEvents {
			if err := r.Drift("p", "a", setting("0")); err != nil {
				t.Fatal(err)
			}
		}
		if h := r.History("p", "a"); len(h) != sim.MaxEvents || h[0].Kind != sim.Drifted || h[0].Sequence >= h[sim.MaxEvents-1].Sequence {
			t.Errorf("%d events, from %v", len(h), h)
		}
		if err := r.RemovePodSandbox(t.Context(), box); err != nil {
			t.Fatal(err)
		}
		for i := range sim.MaxStopped {
			if n := len(r.History("p", "a")); n == 0 {
				t.Fatalf("forgotten after %d other pods", i)
			}
			id, err := r.RunPodSandbox(t.Context(), sim.SandboxOf(sharing(fmt.Sprint(i))))
			if err = errors.Join(err, r.RemovePodSandbox(t.Context(), id)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(r.History("p", "a")); n != 0 {
			t.Errorf("%d events are left", n)
		}
		if err := r.Drift("p", "a", setting("0")); !errors.Is(err, sim.ErrNotRunning) {
			t.Errorf("error %v, want ErrNotRunning", err)
		}
	})
}
