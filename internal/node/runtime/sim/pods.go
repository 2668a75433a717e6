package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// Sandbox is a kubelet's request for a sandbox.
type Sandbox struct {
	UID, Namespace, Name string
	// CgroupParent is the pod's cgroup, spelled as the driver cgroupfs or systemd names it. If it
	// does not exist, it is created with Resources.
	CgroupParent string
	// Resources are the numbers of the pod as a whole.
	Resources Resources
	// Annotations are the pod's annotations. They must not change.
	Annotations map[string]string
}

// sandbox is a sandbox that exists.
type sandbox struct {
	id    string
	asked Sandbox
	ready bool
}

func (s *sandbox) message() *api.PodSandbox {
	return &api.PodSandbox{
		Id: s.id, Uid: s.asked.UID, Namespace: s.asked.Namespace, Name: s.asked.Name, Annotations: s.asked.Annotations,
		Linux: &api.LinuxPodSandbox{CgroupParent: s.asked.CgroupParent, PodResources: s.asked.Resources.message()},
	}
}

func (s *sandbox) step() Step { return Step{ID: s.id, Pod: s.asked.UID} }

// RunPodSandbox asks the plugins, creates a sandbox and returns its ID. If it returns an error,
// which may be a plugin's rejection, there is no sandbox.
func (r *Runtime) RunPodSandbox(ctx context.Context, asked Sandbox) (string, error) {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	s := &sandbox{id: r.id("sandbox"), asked: asked, ready: true}
	if r.parents[asked.CgroupParent] == nil {
		made := asked.Resources
		r.parents[asked.CgroupParent] = &made
	}
	r.mu.Unlock()
	err := r.locked(func() error {
		_, err := ask(ctx, r, api.Event_RUN_POD_SANDBOX, s.step(), func(ctx context.Context, p api.PluginService) (*api.RunPodSandboxResponse, error) {
			return p.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: s.message()})
		})
		r.phases[s.id] = running
		return err
	})
	if err != nil {
		err = errors.Join(err, r.stopSandbox(ctx, s), r.removeSandbox(ctx, s))
		return "", fmt.Errorf("sandbox of pod %s/%s: %w", asked.Namespace, asked.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.id] = s
	r.records.stopped = slices.DeleteFunc(r.records.stopped, func(uid string) bool { return uid == asked.UID })
	r.records.open[asked.UID]++
	if r.records.pods[asked.UID] == nil {
		r.records.pods[asked.UID] = map[string][]Event{}
	}
	return s.id, nil
}

// StopPodSandbox stops the containers of a sandbox, the last one first, then the sandbox. It does
// nothing if the sandbox is already stopped or does not exist. An error comes from a plugin;
// everything is stopped nevertheless.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	s, containers := r.sandbox(id)
	if s == nil {
		return nil
	}
	r.gate.enter()
	defer r.gate.leave()
	var errs []error
	for _, c := range slices.Backward(containers) {
		errs = append(errs, r.stop(ctx, c))
	}
	r.mu.Lock()
	s.ready = false
	r.mu.Unlock()
	return errors.Join(append(errs, r.stopSandbox(ctx, s))...)
}

// RemovePodSandbox stops and removes the containers of a sandbox and the sandbox. It does nothing
// if the sandbox does not exist. An error comes from a plugin; everything is removed nevertheless.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	err := r.StopPodSandbox(ctx, id)
	s, containers := r.sandbox(id)
	if s == nil {
		return err
	}
	r.gate.enter()
	defer r.gate.leave()
	errs := []error{err}
	for _, c := range containers {
		errs = append(errs, r.remove(ctx, c))
	}
	r.mu.Lock()
	delete(r.sandboxes, id)
	r.records.end(s.asked.UID)
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.sandboxes)), func(o *sandbox) bool { return o.asked.CgroupParent == s.asked.CgroupParent }) {
		delete(r.parents, s.asked.CgroupParent)
	}
	r.mu.Unlock()
	return errors.Join(append(errs, r.removeSandbox(ctx, s))...)
}

// UpdatePodSandbox changes the numbers of a whole pod, as an in-place resize does.
func (r *Runtime) UpdatePodSandbox(ctx context.Context, id string, to Resources) error {
	s, _ := r.sandbox(id)
	if s == nil {
		return fmt.Errorf("sandbox %s: %w", id, ErrNotRunning)
	}
	if r.config.SilentPods {
		return nil
	}
	r.gate.enter()
	defer r.gate.leave()
	return r.locked(func() error {
		_, err := ask(ctx, r, api.Event_UPDATE_POD_SANDBOX, s.step(), func(ctx context.Context, p api.PluginService) (*api.UpdatePodSandboxResponse, error) {
			return p.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: s.message(), LinuxResources: to.message()})
		})
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		s.asked.Resources = to
		return nil
	})
}

// stopSandbox notifies plugins, once, that a sandbox stopped. removeSandbox notifies them, once,
// that it was removed.
func (r *Runtime) stopSandbox(ctx context.Context, s *sandbox) error {
	return r.locked(func() error {
		if r.phases[s.id] != running {
			return nil
		}
		r.phases[s.id] = stopped
		_, err := ask(ctx, r, api.Event_STOP_POD_SANDBOX, s.step(), func(ctx context.Context, p api.PluginService) (*api.StopPodSandboxResponse, error) {
			return p.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: s.message()})
		})
		return err
	})
}

func (r *Runtime) removeSandbox(ctx context.Context, s *sandbox) error {
	return r.locked(func() error {
		if r.phases[s.id] == removed {
			return nil
		}
		delete(r.phases, s.id)
		_, err := ask(ctx, r, api.Event_REMOVE_POD_SANDBOX, s.step(), func(ctx context.Context, p api.PluginService) (*api.RemovePodSandboxResponse, error) {
			return p.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: s.message()})
		})
		return err
	})
}

// sandbox returns the sandbox with an ID and its containers, the oldest first. It returns nil if
// there is none.
func (r *Runtime) sandbox(id string) (*sandbox, []*container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	var all []*container
	for _, c := range r.containers {
		if c.sandbox == s && s != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *container) int { return cmp.Compare(a.number, b.number) })
	return s, all
}

// everything returns what a plugin gets when it is synchronised: every sandbox, and the containers
// that have not ended.
func (r *Runtime) everything() (pods []*api.PodSandbox, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.sandboxes)) {
		pods = append(pods, r.sandboxes[id].message())
		if s := r.sandboxes[id]; r.phases[id] == removed && s.ready {
			r.phases[id] = running
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		c := r.containers[id]
		if c.state == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		containers = append(containers, c.message())
	}
	return pods, containers
}
