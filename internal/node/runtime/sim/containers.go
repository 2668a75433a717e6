package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// container is a container in the store, or about to be there.
type container struct {
	id      string
	number  uint64 // the container's place in the order of creation
	sandbox *sandbox
	name    string
	created int64 // nanoseconds since 1970
	state   api.ContainerState
	// spec is the setting that the runtime reports. cgroup is the kernel's setting. It is nil
	// before the start and after the end.
	spec   Resources
	cgroup *Resources
}

// path returns the path of the container's cgroup.
func (c *container) path() string { return c.sandbox.asked.CgroupParent + "/" + c.id }

// message returns the container as plugins see it. The caller has locked mu, or the container is
// not in the store yet.
func (c *container) message() *api.Container {
	return &api.Container{
		Id: c.id, PodSandboxId: c.sandbox.id, Name: c.name, State: c.state, CreatedAt: c.created,
		Linux: &api.LinuxContainer{CgroupsPath: c.path(), Resources: c.spec.message()},
	}
}

func (c *container) step(p Point) Step {
	return Step{Point: p, ID: c.id, Pod: c.sandbox.asked.UID, Container: c.name}
}

func (c *container) event(k Kind, hook string, s converge.Setting) Event {
	return Event{Kind: k, ID: c.id, Pod: c.sandbox.asked.UID, Container: c.name, Hook: hook, Setting: s}
}

func (c *container) String() string { return key{c.sandbox.asked.UID, c.name}.String() }

// shown returns the container as plugins see it now.
func (r *Runtime) shown(c *container) *api.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.message()
}

// CreateContainer creates a container in a sandbox and returns its ID. The replies of the plugins
// change the resources that were asked for. StartContainer is the next step. An error without an ID
// means that there is no container, and that plugins that had answered were notified. An error with
// an ID means that the container exists, and that a plugin failed after the creation.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID, name string, asked Resources) (string, error) {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	s := r.sandboxes[sandboxID]
	if s == nil || !s.ready {
		r.mu.Unlock()
		return "", fmt.Errorf("container %s: its sandbox %q: %w", name, sandboxID, ErrNotRunning)
	}
	c := &container{id: r.id("sim"), number: r.lastID, sandbox: s, name: name, created: r.config.Now().UnixNano(), spec: asked, state: api.ContainerState_CONTAINER_CREATED}
	r.mu.Unlock()
	err := r.locked(func() error { return r.adjust(ctx, c) })
	if err == nil {
		err = r.store(c)
	}
	if err != nil {
		r.mu.Lock()
		c.state = api.ContainerState_CONTAINER_STOPPED
		r.emit(c.event(Undone, "", c.spec.setting()))
		r.mu.Unlock()
		return "", errors.Join(fmt.Errorf("%s: it could not be created: %w", c, err), r.stopped(ctx, c), r.removed(ctx, c))
	}
	if err := r.post(ctx, c, api.Event_POST_CREATE_CONTAINER); err != nil {
		return c.id, fmt.Errorf("%s: after its creation: %w", c, err)
	}
	return c.id, nil
}

// adjust asks the plugins about a container and applies the updates in their replies. The caller
// has the lock.
func (r *Runtime) adjust(ctx context.Context, c *container) error {
	replies, err := ask(ctx, r, api.Event_CREATE_CONTAINER, c.step(Asking), func(ctx context.Context, p api.PluginService) (*api.CreateContainerResponse, error) {
		return p.CreateContainer(ctx, &api.CreateContainerRequest{Pod: c.sandbox.message(), Container: c.message()})
	})
	r.phases[c.id] = made
	if err != nil {
		return err
	}
	for _, name := range r.config.Required {
		if !slices.ContainsFunc(replies, func(a reply[*api.CreateContainerResponse]) bool {
			return a.plugin == name || strings.HasSuffix(a.plugin, "-"+name)
		}) {
			return fmt.Errorf("required NRI plugin %q is not connected or did not answer: the container is not created", name)
		}
	}
	for _, a := range replies {
		if _, err := r.apply("CreateContainer", a.answer.GetUpdate()); errors.Is(err, ErrClosed) {
			return err // Updates that fail do not fail the creation, as in containerd.
		}
	}
	replied := Event{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range replies {
		if c.spec, err = c.spec.merge(a.answer.GetAdjust().GetLinux().GetResources(), r.parse); err != nil {
			return fmt.Errorf("plugin %s: %w", a.plugin, err)
		}
		replied = c.event(Replied, "CreateContainer", c.spec.setting())
	}
	if len(replies) == 0 {
		replied = c.event(Replied, "", c.spec.setting())
	}
	r.emit(replied)
	return nil
}

// store adds a container to the store, after the fault's delay.
func (r *Runtime) store(c *container) error {
	f := r.fault(c.step(Storing))
	if err := r.sleep(f.Delay); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := key{c.sandbox.asked.UID, c.name}
	if waiting := r.faults[of]; waiting != nil && len(waiting.creations) > 0 {
		f.Err = errors.Join(f.Err, waiting.creations[0])
		waiting.creations = waiting.creations[1:]
		r.tidy(of, waiting)
	}
	if f.Err != nil {
		return f.Err
	}
	if !c.sandbox.ready {
		return fmt.Errorf("its sandbox: %w", ErrNotRunning)
	}
	r.containers[c.id] = c
	return nil
}

// StartContainer starts a container that was created. If the start fails, the container has ended.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	c := r.containers[id]
	if c == nil || c.state != api.ContainerState_CONTAINER_CREATED || c.cgroup != nil {
		r.mu.Unlock()
		return fmt.Errorf("container %q: it is not there, or was started before: %w", id, ErrNotRunning)
	}
	cgroup := c.spec
	c.cgroup = &cgroup
	r.emit(c.event(Created, "", cgroup.setting()))
	r.mu.Unlock()
	f := r.fault(c.step(Starting))
	err := errors.Join(r.sleep(f.Delay), f.Err)
	if err == nil {
		err = r.locked(func() error {
			_, err := ask(ctx, r, api.Event_START_CONTAINER, c.step(Asking), func(ctx context.Context, p api.PluginService) (*api.StartContainerResponse, error) {
				return p.StartContainer(ctx, &api.StartContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
			})
			r.phases[c.id] = running
			return err
		})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: it could not be started: %w", c, err), r.stop(ctx, c))
	}
	r.mu.Lock()
	if c.state == api.ContainerState_CONTAINER_CREATED {
		c.state = api.ContainerState_CONTAINER_RUNNING
	}
	r.mu.Unlock()
	return r.post(ctx, c, api.Event_POST_START_CONTAINER)
}

// post notifies plugins after a request.
func (r *Runtime) post(ctx context.Context, c *container, event api.Event) error {
	return r.locked(func() error {
		_, err := ask(ctx, r, event, c.step(Asking), func(ctx context.Context, p api.PluginService) (any, error) {
			switch event {
			case api.Event_POST_CREATE_CONTAINER:
				return p.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
			case api.Event_POST_START_CONTAINER:
				return p.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
			default:
				return p.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
			}
		})
		return err
	})
}

// UpdateContainer is an in-place resize by the kubelet. The plugins may change the numbers.
func (r *Runtime) UpdateContainer(ctx context.Context, id string, to Resources) error {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	c := r.containers[id]
	r.mu.Unlock()
	if c == nil {
		return fmt.Errorf("container %q: %w", id, ErrNotRunning)
	}
	err := r.locked(func() error { return r.resize(ctx, c, to.message()) })
	if err != nil {
		return fmt.Errorf("%s: it could not be updated: %w", c, err)
	}
	return r.post(ctx, c, api.Event_POST_UPDATE_CONTAINER)
}

// resize asks the plugins about an update of the kubelet. Their updates of the container itself
// override the kubelet's. Their updates of other containers are applied first. The caller has the
// lock.
func (r *Runtime) resize(ctx context.Context, c *container, asked *api.LinuxResources) error {
	hook := "UpdateContainer"
	replies, err := ask(ctx, r, api.Event_UPDATE_CONTAINER, c.step(Asking), func(ctx context.Context, p api.PluginService) (*api.UpdateContainerResponse, error) {
		return p.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c), LinuxResources: asked})
	})
	if err != nil {
		return err
	}
	own, err := Resources{}.merge(asked, cpuset.Parse)
	if err != nil {
		return err
	}
	for _, a := range replies {
		var others []*api.ContainerUpdate
		for _, u := range a.answer.GetUpdate() {
			if u.GetContainerId() != c.id {
				others = append(others, u)
			} else if own, err = own.merge(u.GetLinux().GetResources(), cpuset.Parse); err != nil {
				return err
			}
		}
		if _, err := r.apply(hook, others); errors.Is(err, ErrClosed) {
			return err // Updates that fail do not fail the resize, as in containerd.
		}
	}
	if len(replies) == 0 {
		hook = "" // No plugin was involved in the update.
	}
	_, err = r.apply(hook, []*api.ContainerUpdate{{ContainerId: c.id, Linux: &api.LinuxContainerUpdate{Resources: own.message()}}})
	return err
}

// StopContainer ends a container, as its own exit does. It does nothing if the container has ended
// or does not exist. An error comes from a plugin; the container has ended nevertheless.
func (r *Runtime) StopContainer(ctx context.Context, id string) error {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	c := r.containers[id]
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	return r.stop(ctx, c)
}

// RemoveContainer ends and removes a container. It does nothing if the container does not exist.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	r.gate.enter()
	defer r.gate.leave()
	r.mu.Lock()
	c := r.containers[id]
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	return errors.Join(r.stop(ctx, c), r.remove(ctx, c))
}

// stop ends a container and notifies plugins.
func (r *Runtime) stop(ctx context.Context, c *container) error {
	r.mu.Lock()
	if c.cgroup != nil {
		r.emit(c.event(Stopped, "", c.cgroup.setting()))
	} else if c.state == api.ContainerState_CONTAINER_CREATED {
		r.emit(c.event(Undone, "", c.spec.setting()))
	}
	c.state, c.cgroup = api.ContainerState_CONTAINER_STOPPED, nil
	r.mu.Unlock()
	return r.stopped(ctx, c)
}

func (r *Runtime) remove(ctx context.Context, c *container) error {
	r.mu.Lock()
	delete(r.containers, c.id)
	r.mu.Unlock()
	return r.removed(ctx, c)
}

// stopped notifies plugins, once, that a container ended, and applies the updates in their replies.
func (r *Runtime) stopped(ctx context.Context, c *container) error {
	return r.locked(func() error {
		if p := r.phases[c.id]; p != made && p != running {
			return nil
		}
		r.phases[c.id] = stopped
		replies, err := ask(ctx, r, api.Event_STOP_CONTAINER, c.step(Asking), func(ctx context.Context, p api.PluginService) (*api.StopContainerResponse, error) {
			return p.StopContainer(ctx, &api.StopContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
		})
		for _, a := range replies {
			if _, err := r.apply("StopContainer", a.answer.GetUpdate()); errors.Is(err, ErrClosed) {
				return err
			}
		}
		return err
	})
}

// removed notifies plugins, once, that a container was removed.
func (r *Runtime) removed(ctx context.Context, c *container) error {
	return r.locked(func() error {
		if r.phases[c.id] == removed {
			return nil
		}
		delete(r.phases, c.id)
		_, err := ask(ctx, r, api.Event_REMOVE_CONTAINER, c.step(Asking), func(ctx context.Context, p api.PluginService) (*api.RemoveContainerResponse, error) {
			return p.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: c.sandbox.message(), Container: r.shown(c)})
		})
		return err
	})
}

// Running is a running container, as the kubelet and the kernel show it.
type Running struct {
	converge.Observed
	// Who is the pod's namespace/name. Path is the path of the container's cgroup.
	Who, Path string
}

// Running returns the containers that run, in no order.
func (r *Runtime) Running() []Running {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Running
	for id, c := range r.containers {
		if c.cgroup != nil && c.state == api.ContainerState_CONTAINER_RUNNING {
			asked := c.sandbox.asked
			list = append(list, Running{
				Observed: converge.Observed{ID: id, Pod: asked.UID, Container: c.name, Setting: c.cgroup.setting()},
				Who:      asked.Namespace + "/" + asked.Name, Path: c.path(),
			})
		}
	}
	return list
}

// Observe returns the settings of all containers' cgroups, ordered by pod, then by container.
func (r *Runtime) Observe() []converge.Observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	observed := []converge.Observed{}
	for id, c := range r.containers {
		if c.cgroup != nil {
			observed = append(observed, converge.Observed{ID: id, Pod: c.sandbox.asked.UID, Container: c.name, Setting: c.cgroup.setting()})
		}
	}
	slices.SortFunc(observed, func(a, b converge.Observed) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.ID, b.ID))
	})
	return observed
}
