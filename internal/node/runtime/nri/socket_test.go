package nri_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// runtime is the runtime's side of NRI, as in containerd, on a socket.
type runtime struct {
	*adaptation.Adaptation
	mu      sync.Mutex
	synced  chan []*api.ContainerUpdate
	updates [][]*api.ContainerUpdate
}

func startRuntime(t *testing.T, socket string, pods []*api.PodSandbox, containers []*api.Container, options ...adaptation.Option) *runtime {
	t.Helper()
	r := &runtime{synced: make(chan []*api.ContainerUpdate, 1)}
	synchronise := func(ctx context.Context, f adaptation.SyncCB) error {
		updates, err := f(ctx, pods, containers)
		r.synced <- updates
		return err
	}
	update := func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.updates = append(r.updates, updates)
		return nil, nil
	}
	var err error
	options = append(options, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(filepath.Join(filepath.Dir(socket), "plugins")), adaptation.WithPluginConfigPath(filepath.Join(filepath.Dir(socket), "conf")))
	r.Adaptation, err = adaptation.New("containerd", "2.4.2", synchronise, update, options...)
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-r.synced // with the plugins that it starts itself, which are none
	return r
}

// TestSocket uses the NRI library on both sides of a socket: the plugin finds a runtime that starts
// later, answers it, and finds it again after a restart.
func TestSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	b := newBench(t.Context(), func(c *nri.Config) {
		c.Dial, c.Socket, c.Name, c.Index = nil, socket, "paddock", "90"
		c.After = func(d time.Duration) <-chan time.Time { return time.After(d / 5) }
	})
	b.boot()
	b.list(guaranteed("g", 2), guaranteed("h", 5))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.plugin.Run(ctx) }()

	r := startRuntime(t, socket, nil, nil)
	if updates := <-r.synced; len(updates) > 0 {
		t.Errorf("nothing runs, and %v is updated", updates)
	}
	box := &api.PodSandbox{Id: "box", Uid: "g", Name: "g", Namespace: "default"}
	for known := false; !known; { // The runtime asks a plugin only from a moment after it was synchronised.
		if err := r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: box}); err != nil {
			t.Fatal(err)
		}
		_, known = b.engine.State().Grant("g")
	}
	app := &api.Container{Id: "c", PodSandboxId: "box", Name: "app", Linux: &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(int64(200000))}}}}
	reply, err := r.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: box, Container: app})
	if err != nil {
		t.Fatal(err)
	}
	if cpu := reply.GetAdjust().GetLinux().GetResources().GetCpu(); cpu.GetCpus() != "2-3" || cpu.GetMems() != "0" || cpu.GetQuota().GetValue() != -1 {
		t.Errorf("the container is created with %v", cpu)
	}
	err = r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: &api.PodSandbox{Id: "no", Uid: "h", Name: "h", Namespace: "default"}})
	if err == nil {
		t.Error("a pod that does not fit was admitted")
	}
	r.Stop()
	if err := b.plugin.HangUp(); err != nil {
		t.Fatal(err)
	}

	app.State, app.Linux.Resources = api.ContainerState_CONTAINER_RUNNING, nil
	r = startRuntime(t, socket, []*api.PodSandbox{box}, []*api.Container{app})
	updates := <-r.synced
	if len(updates) != 1 || updates[0].GetLinux().GetResources().GetCpu().GetCpus() != "2-3" {
		t.Errorf("an unpinned container is repaired with %v", updates)
	}
	r.Stop()
	cancel()
	if err := <-ended; err == nil {
		t.Error("Run ended without its cause")
	}
}
