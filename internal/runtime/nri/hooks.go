package nri

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// RunPodSandbox plans the whole pod.
func (p *Plugin) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) (err error) {
	ctx, done := p.answer(ctx, "RunPodSandbox")
	defer func() { done(&err) }()
	if pod.GetUid() == "" || p.isAside() {
		return nil
	}
	p.mu.Lock()
	p.enter(pod)
	p.mu.Unlock()
	grant, err := p.admit(ctx, pod, p.lookupOrEstimate)
	if err != nil {
		p.mu.Lock()
		delete(p.table.sandboxes, pod.GetId())
		p.mu.Unlock()
		return err
	}
	p.liftQuota(ctx, grant, []string{pod.GetLinux().GetCgroupParent()})
	return nil
}

// enter notes a sandbox. Lock held.
func (p *Plugin) enter(pod *api.PodSandbox) {
	p.table.sandboxes[pod.GetId()] = &sandbox{id: pod.GetId(), pod: pod.GetUid(), who: podName(pod), parent: pod.GetLinux().GetCgroupParent()}
	p.table.heard(pod.GetUid(), p.config.Now())
}

func podName(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

// admit makes sure that a pod holds something, and that it is durable. ask finds out what it asks for. The
// error is for the user; it wraps ErrRefused for a refusal.
func (p *Plugin) admit(ctx context.Context, sandbox *api.PodSandbox, ask func(context.Context, *api.PodSandbox) (asked, error)) (*node.Grant, error) {
	uid := sandbox.GetUid()
	s := p.config.Engine.State()
	if g, known := s.Grant(uid); known {
		// Asking again makes it durable if that was in doubt.
		if _, err := p.config.Engine.Admit(ctx, g.Pod); err != nil {
			return nil, fmt.Errorf("paddock: pod %s: %w; it will be tried again", podName(sandbox), err)
		}
		return g, nil
	}
	a, err := ask(ctx, sandbox)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s (uid %s) is not known yet: %w; it will be tried again", podName(sandbox), uid, err)
	}
	p.mu.Lock()
	before, again := p.refused[uid]
	p.mu.Unlock()
	if again && before.generation == s.Generation() && before.pod.Equal(a.pod) {
		return nil, before.err
	}
	plan, err := p.config.Engine.Admit(ctx, a.pod)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s: %w; it will be tried again", podName(sandbox), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if plan.Refusal != nil {
		err := refusal(a.pod, plan.Refusal)
		p.refused[uid] = refused{pod: a.pod, generation: s.Generation(), err: err}
		return nil, err
	}
	delete(p.refused, uid)
	if a.unlisted != nil {
		delete(p.told, uid)
		p.sayEstimate(ctx, a, plan.Grant)
	}
	return plan.Grant, nil
}

// CreateContainer says what a container runs on, and makes room for it.
func (p *Plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (_ *api.ContainerAdjustment, _ []*api.ContainerUpdate, err error) {
	ctx, done := p.answer(ctx, "CreateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" || p.isAside() {
		return nil, nil, nil
	}
	comes, err := settingOf(c.GetLinux().GetResources())
	if err != nil {
		return nil, nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	if hasCPUSet(c.GetLinux().GetResources()) {
		p.standAside(ctx, podName(pod), c.GetName(), comes)
		return nil, nil, nil
	}
	grant, known := p.config.Engine.State().Grant(pod.GetUid())
	if !known { // Its sandbox was made without us.
		if grant, err = p.admit(ctx, pod, p.lookupOrEstimate); err != nil {
			return nil, nil, err
		}
	}
	if err := p.clear(ctx, grant); err != nil {
		return nil, nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	setting, updates, err := p.place(ctx, pod, c)
	if err != nil {
		return nil, nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	return adjustment(setting), updatesOf(updates), nil
}

// clear waits until no update is under way that knows nothing of the grant: it could give a container CPUs
// that are the grant's.
func (p *Plugin) clear(ctx context.Context, g *node.Grant) error {
	p.mu.Lock()
	var wait *flight
	if p.link != nil && p.link.flight != nil && p.link.flight.generation < g.Sequence {
		wait = p.link.flight
	}
	p.mu.Unlock()
	if wait == nil {
		return nil
	}
	select {
	case <-wait.done:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// place enters a container into the table and returns what it runs on, and the updates that go with it.
func (p *Plugin) place(ctx context.Context, pod *api.PodSandbox, c *api.Container) (converge.Setting, []converge.Update, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.config.Engine.State()
	setting := desired(s, pod.GetUid(), c.GetName())
	if setting.CPUs.IsEmpty() && s.Policy().StaticCPU {
		return setting, nil, errEmptyPool
	}
	p.config.Engine.ContainerCreated(pod.GetUid(), c.GetName())
	p.table.heard(pod.GetUid(), p.config.Now())
	updates, stranded := p.table.compare(s, c.GetId())
	p.carry(c.GetId(), updates)
	p.replied = p.config.Now() // What it is created with is on its way, too.
	p.table.containers[c.GetId()] = &container{
		id: c.GetId(), pod: pod.GetUid(), name: c.GetName(), path: c.GetLinux().GetCgroupsPath(), setting: setting,
	}
	p.say(ctx, stranded)
	return setting, updates, nil
}

// StartContainer tells that the updates that were sent with the container's creation are through.
func (p *Plugin) StartContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) (err error) {
	_, done := p.answer(ctx, "StartContainer")
	defer func() { done(&err) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.confirm(c.GetId())
	return nil
}

// UpdateContainer keeps a resize away from what is ours.
func (p *Plugin) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) (_ []*api.ContainerUpdate, err error) {
	ctx, done := p.answer(ctx, "UpdateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" || p.isAside() {
		return nil, nil
	}
	if hasCPUSet(r) {
		comes, err := settingOf(r)
		if err != nil {
			return nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
		}
		p.standAside(ctx, podName(pod), c.GetName(), comes)
		return nil, nil
	}
	defer p.again()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resized[pod.GetUid()] = true
	known := p.table.containers[c.GetId()]
	if known == nil {
		return nil, nil // It is none of ours, or has ended.
	}
	s := p.config.Engine.State()
	updates, stranded := p.table.compare(s, c.GetId())
	p.carry(c.GetId(), updates)
	p.say(ctx, stranded)
	own := converge.Update{ID: c.GetId(), Pod: known.pod, Container: known.name, Before: known.setting, After: desired(s, known.pod, known.name)}
	return updatesOf(append(updates, own)), nil
}

// UpdatePodSandbox notes that a pod asks for something else.
func (p *Plugin) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) (err error) {
	_, done := p.answer(ctx, "UpdatePodSandbox")
	defer func() { done(&err) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resized[pod.GetUid()] = true
	p.again()
	return nil
}

// StopContainer forgets that a container runs. Its pod keeps everything: it may start again.
func (p *Plugin) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (_ []*api.ContainerUpdate, err error) {
	ctx, done := p.answer(ctx, "StopContainer")
	defer func() { done(&err) }()
	p.leave(pod, c)
	if p.isAside() {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	updates, stranded := p.table.compare(p.config.Engine.State(), "")
	p.carry(stopping, updates)
	p.say(ctx, stranded)
	return updatesOf(updates), nil
}

// stopping is the operation of updates of which nobody tells that they are through: they stay in doubt
// until the cgroup files show it, or the next reply sends them again.
const stopping = "stopping"

// RemoveContainer forgets a container.
func (p *Plugin) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	_, done := p.answer(ctx, "RemoveContainer")
	defer func() { done(&err) }()
	p.leave(pod, c)
	return nil
}

func (p *Plugin) leave(pod *api.PodSandbox, c *api.Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.table.containers, c.GetId())
	p.table.heard(pod.GetUid(), p.config.Now())
	p.again()
}

// StopPodSandbox forgets a sandbox. Its pod keeps everything: a new one may be made.
func (p *Plugin) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) (err error) {
	_, done := p.answer(ctx, "StopPodSandbox")
	defer func() { done(&err) }()
	p.end(pod)
	return nil
}

// RemovePodSandbox forgets a sandbox, as StopPodSandbox does.
func (p *Plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) (err error) {
	_, done := p.answer(ctx, "RemovePodSandbox")
	defer func() { done(&err) }()
	p.end(pod)
	return nil
}

func (p *Plugin) end(pod *api.PodSandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.table.sandboxes[pod.GetId()]; there {
		delete(p.table.sandboxes, pod.GetId())
		p.table.heard(pod.GetUid(), p.config.Now())
	}
	p.again()
}
