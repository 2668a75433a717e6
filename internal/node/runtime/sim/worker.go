package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Run starts and ends pods until ctx ends. It begins when a plugin is synchronised. It returns the
// cause of ctx, or ErrClosed. Containers keep running.
func (k *Kubelet) Run(ctx context.Context) error {
	err := k.runtime.Await(ctx)
	if err == nil {
		err = k.loop(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // also if the runtime was closed because ctx ended
	}
	return err
}

func (k *Kubelet) loop(ctx context.Context) error {
	slots := make(chan struct{}, parallel)
	var starting sync.WaitGroup
	defer starting.Wait()
	for {
		k.endAll(ctx, slots)
		var next <-chan time.Time
		if due, some := k.startAll(ctx, slots, &starting); some {
			next = k.runtime.config.After(due.Sub(k.runtime.config.Now()))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-k.runtime.ctx.Done():
			return ErrClosed
		case <-k.wake:
		case <-next:
		}
	}
}

// endAll ends the pods that should not run any more, and waits for their end.
func (k *Kubelet) endAll(ctx context.Context, slots chan struct{}) {
	k.mu.Lock()
	var gone []*pod
	for _, p := range k.pods {
		if !p.wanted {
			gone = append(gone, p)
		}
	}
	k.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	slices.SortFunc(gone, func(a, b *pod) int { return strings.Compare(a.UID, b.UID) })
	var ending sync.WaitGroup
	for _, p := range gone {
		slots <- struct{}{}
		ending.Go(func() {
			defer func() { <-slots }()
			k.end(k.config.Operation(ctx), p)
		})
	}
	ending.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.order { // There may be room now.
		if !p.settled {
			p.wait, p.due = 0, time.Time{}
		}
	}
}

// end stops and removes the sandbox and the containers of a pod, and deletes the pod unless it
// should run.
func (k *Kubelet) end(ctx context.Context, p *pod) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	if p.sandbox != "" {
		if err := k.runtime.RemovePodSandbox(ctx, p.sandbox); err != nil && ctx.Err() == nil {
			k.config.Log.WarnContext(ctx, "pod removed, but not every plugin took note", "pod", p.ID(), "uid", p.UID, "error", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p.sandbox, p.settled = "", false
	clear(p.ids)
	clear(p.done)
	if !p.wanted {
		delete(k.pods, p.UID)
	}
}

// startAll creates the sandboxes of pods that are due, one after the other, and starts the creation
// of their containers. It also starts the resizes that are due. It returns the time at which the
// next pod is due, if there is one.
func (k *Kubelet) startAll(ctx context.Context, slots chan struct{}, starting *sync.WaitGroup) (next time.Time, some bool) {
	k.mu.Lock()
	order := slices.Clone(k.order)
	k.mu.Unlock()
	for _, p := range order {
		if ctx.Err() != nil {
			return next, false
		}
		due, now := k.due(p)
		switch {
		case due && k.isSettled(p):
			k.mark(p, true)
			slots <- struct{}{}
			starting.Go(func() {
				defer func() { <-slots }()
				k.adjust(k.config.Operation(ctx), p)
				k.mark(p, false)
				k.again()
			})
			continue
		case due && k.open(k.config.Operation(ctx), p):
			k.mark(p, true)
			slots <- struct{}{}
			starting.Go(func() {
				defer func() { <-slots }()
				k.fill(k.config.Operation(ctx), p)
				k.mark(p, false)
				k.again()
			})
			continue
		case due:
			_, now = k.due(p)
		}
		if !now.IsZero() && (!some || now.Before(next)) {
			next, some = now, true
		}
	}
	return next, some
}

// due reports whether a pod is to be tried now. If not, it returns the time of the next try; the
// zero time means never.
func (k *Kubelet) due(p *pod) (bool, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case p.settled && !p.outdated || !p.wanted || p.filling || len(p.busy) > 0:
		return false, time.Time{}
	case p.due.After(k.runtime.config.Now()):
		return false, p.due
	}
	return true, time.Time{}
}

func (k *Kubelet) isSettled(p *pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.settled
}

// adjust resizes a running pod. A resize that fails is tried again.
func (k *Kubelet) adjust(ctx context.Context, p *pod) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	if p.sandbox == "" || !k.isSettled(p) {
		return
	}
	asked := k.asked(p)
	if err := k.resize(ctx, p, asked); err != nil {
		k.failed(ctx, p, err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p.outdated = !p.Equal(asked)
	p.err, p.wait = nil, 0
}

// mark records whether the loop creates a pod's containers.
func (k *Kubelet) mark(p *pod, filling bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.filling = filling
}

// open creates the sandbox of a pod unless it has one. It reports whether the pod has one
// afterwards.
func (k *Kubelet) open(ctx context.Context, p *pod) bool {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	if p.sandbox != "" {
		return true
	}
	asked := k.asked(p)
	id, err := k.runtime.RunPodSandbox(ctx, SandboxOf(asked))
	k.mu.Lock()
	p.sandbox = id
	k.mu.Unlock()
	if err != nil {
		k.failed(ctx, p, err)
	}
	return err == nil
}

// asked returns the present request of a pod.
func (k *Kubelet) asked(p *pod) request.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.Pod
}

// fill creates and starts the missing containers of a pod.
func (k *Kubelet) fill(ctx context.Context, p *pod) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	for _, c := range k.asked(p).Containers {
		if ctx.Err() != nil || p.sandbox == "" {
			return
		}
		if p.ids[c.Name] != "" || p.done[c.Name] {
			continue
		}
		if err := k.create(ctx, p, c); err != nil {
			k.failed(ctx, p, err)
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p.settled, p.err, p.wait = true, nil, 0
}

// create creates and starts a container. An init container has ended when it returns. The caller
// has busy.
func (k *Kubelet) create(ctx context.Context, p *pod, c request.Container) error {
	id, err := k.runtime.CreateContainer(ctx, p.sandbox, c.Name, ResourcesOf(c))
	p.actuated[c.Name] = ResourcesOf(c)
	if err == nil {
		err = k.runtime.StartContainer(ctx, id)
	}
	if err != nil {
		return errors.Join(err, k.runtime.RemoveContainer(ctx, id))
	}
	if c.Type == request.Init {
		p.done[c.Name] = true
		return k.runtime.StopContainer(ctx, id)
	}
	p.ids[c.Name] = id
	return nil
}

// failed records why a pod does not run, and when it is tried again. The caller has busy.
func (k *Kubelet) failed(ctx context.Context, p *pod, err error) {
	k.mu.Lock()
	news, what := p.err == nil || p.err.Error() != err.Error(), "pod not started; the simulated kubelet tries again"
	if p.settled {
		what = "pod not resized; the simulated kubelet tries again"
	}
	p.err = err
	p.wait = min(max(2*p.wait, k.config.First), k.config.Longest)
	p.due = k.runtime.config.Now().Add(p.wait)
	k.mu.Unlock()
	if news && ctx.Err() == nil {
		k.config.Log.WarnContext(ctx, what, "pod", p.ID(), "uid", p.UID, "error", err)
	}
}

// StopContainer ends a container of a pod, as its own exit does. The kubelet does not start it
// again. The error wraps ErrNotRunning.
func (k *Kubelet) StopContainer(ctx context.Context, uid, name string) error {
	return k.with(uid, func(p *pod) error {
		id := p.ids[name]
		if id == "" {
			return fmt.Errorf("%s: %w", key{uid, name}, ErrNotRunning)
		}
		delete(p.ids, name)
		p.done[name] = true
		return k.runtime.StopContainer(ctx, id)
	})
}

// RestartContainer ends a container of a pod if it runs, removes it, and creates it again. A
// standard init container runs and ends once more. The error wraps ErrNotRunning if the pod does
// not run. If the container cannot be created, the loop tries again.
func (k *Kubelet) RestartContainer(ctx context.Context, uid, name string) error {
	return k.with(uid, func(p *pod) error {
		c, i := k.asked(p).Container(name)
		if i < 0 {
			return fmt.Errorf("%s: the pod has no such container", key{uid, name})
		}
		if id := p.ids[name]; id != "" {
			delete(p.ids, name)
			if err := k.runtime.RemoveContainer(ctx, id); err != nil {
				return err
			}
		}
		delete(p.done, name)
		err := k.create(ctx, p, c)
		if err != nil {
			k.mu.Lock()
			p.settled = false
			k.mu.Unlock()
			k.failed(ctx, p, err)
		}
		return err
	})
}

// RestartPod ends a pod's containers and its sandbox; the loop creates them again, as after the end
// of a sandbox. The error wraps ErrNotRunning if the pod does not run. If something cannot be
// created, the loop tries again.
func (k *Kubelet) RestartPod(ctx context.Context, uid string) error {
	return k.with(uid, func(p *pod) error {
		err := k.runtime.RemovePodSandbox(ctx, p.sandbox)
		k.mu.Lock()
		defer k.mu.Unlock()
		p.sandbox, p.settled, p.due = "", false, time.Time{}
		clear(p.ids)
		clear(p.done)
		return err
	})
}

// with calls do with a pod that has a sandbox.
func (k *Kubelet) with(uid string, do func(*pod) error) error {
	k.mu.Lock()
	p := k.pods[uid]
	k.mu.Unlock()
	if p == nil {
		return fmt.Errorf("pod %s: %w", uid, ErrNotRunning)
	}
	p.busy <- struct{}{}
	defer func() {
		<-p.busy
		k.again() // The loop skips a pod that is busy.
	}()
	k.mu.Lock()
	there := p.sandbox != "" && p.wanted
	k.mu.Unlock()
	if !there {
		return fmt.Errorf("pod %s: %w", uid, ErrNotRunning)
	}
	return do(p)
}
