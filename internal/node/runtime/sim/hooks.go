package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/status"
)

// These requests are not events of NRI.
const (
	hookSynchronize      = "Synchronize"
	hookUpdateContainers = "UpdateContainers"
)

// reply is the answer of one plugin.
type reply[A any] struct {
	plugin string
	answer A
}

// ask sends a request to every plugin that wants it, one after the other. A plugin that does not
// answer in time, or whose connection ends, is closed. The request continues without it unless its
// failure policy stops the request. An error that a plugin returns fails the request. The caller
// has the lock.
func ask[A any](ctx context.Context, r *Runtime, event api.Event, step Step, call func(context.Context, api.PluginService) (A, error)) ([]reply[A], error) {
	defer func() { r.plugins = slices.DeleteFunc(r.plugins, (*peer).isClosed) }()
	step.Hook = event.PrettyName()
	var replies []reply[A]
	for _, p := range r.plugins {
		if p.isClosed() || !p.events.IsSet(event) {
			continue
		}
		step.Point = Asking
		if err := r.suffer(step, p); err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, r.config.RequestTimeout)
		answer, err := call(limited, p.service)
		cancel()
		if err == nil {
			step.Point = Answered
			if err := r.suffer(step, p); err != nil {
				return nil, err
			}
			if !p.isClosed() {
				replies = append(replies, reply[A]{p.name, answer})
				continue
			}
			err = ttrpc.ErrClosed // The plugin answered, but its answer did not arrive.
		}
		if err := p.judge(ctx, step.Hook, err); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// judge returns the error with which a plugin's error fails the request, or nil if the request
// continues. It closes a plugin that failed to answer, unless that was a timeout and the plugin's
// policy keeps the connection. An error that the plugin returned, and any error after the kubelet
// stopped waiting, only fails the request.
func (p *peer) judge(ctx context.Context, hook string, err error) error {
	late := errors.Is(err, context.DeadlineExceeded)
	broken := errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, ttrpc.ErrServerClosed) || errors.Is(err, ttrpc.ErrProtocol)
	if ctx.Err() != nil || !late && !broken {
		return returned{err}
	}
	if !late || !p.policy.GetKeepConnected() {
		p.close()
	}
	if p.policy.GetFailRequest() {
		return fmt.Errorf("plugin %s failed to handle %s: %w", p.name, hook, err)
	}
	return nil
}

// returned is an error that a plugin returned, without the protocol's prefix.
type returned struct{ err error }

func (e returned) Error() string { return status.Convert(e.err).Message() }

func (e returned) Unwrap() error { return e.err }

// apply applies updates in their order. An update of a container that is not in the store is
// ignored. An update that fails is returned unless its failure is to be ignored, and the other
// updates are applied. The caller has the lock.
func (r *Runtime) apply(hook string, updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate, err error) {
	for _, u := range updates {
		err := r.update(hook, u)
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		if err != nil && !u.GetIgnoreFailure() {
			failed = append(failed, u)
		}
	}
	if len(failed) > 0 {
		return failed, errUpdates
	}
	return nil, nil
}

// update applies one update. If the container does not run, only its specification changes.
func (r *Runtime) update(hook string, u *api.ContainerUpdate) error {
	r.mu.Lock()
	c := r.containers[u.GetContainerId()]
	step := Step{Point: Updating, Hook: hook, ID: u.GetContainerId()}
	if c != nil {
		step.Pod, step.Container = c.sandbox.asked.UID, c.name
	}
	r.mu.Unlock()
	f := r.fault(step)
	if err := r.sleep(f.Delay); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == nil || r.containers[c.id] != c || c.state == api.ContainerState_CONTAINER_STOPPED {
		sent, err := Resources{}.merge(u.GetLinux().GetResources(), r.parse)
		if err != nil {
			return err
		}
		e := Event{Kind: Ignored, ID: u.GetContainerId(), Hook: hook, Setting: sent.setting()}
		if c != nil {
			e.Pod, e.Container = c.sandbox.asked.UID, c.name
		}
		r.emit(e)
		return nil
	}
	next, err := c.spec.merge(u.GetLinux().GetResources(), r.parse)
	if err != nil {
		return err
	}
	e := c.event(Updated, hook, next.setting())
	e.KeepsCPUs = u.GetLinux().GetResources().GetCpu().GetCpus() == ""
	switch {
	case f.Err != nil:
		e.Kind = Failed
	case f.Lose || r.takeLoss(key{step.Pod, step.Container}):
		e.Kind = Lost
	default:
		c.spec = next
		if c.cgroup != nil && c.state == api.ContainerState_CONTAINER_RUNNING {
			if cgroup, err := c.cgroup.merge(u.GetLinux().GetResources(), r.parse); err == nil {
				c.cgroup = &cgroup
			}
		}
	}
	r.emit(e)
	return f.Err
}
