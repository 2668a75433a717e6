package nri

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// session answers the requests of one connection, in the words of NRI. A request is handed to the loop
// as an event, and answered until its deadline. What it has to wait for, the source of pods and
// the disk, it waits for itself.
type session struct {
	*Plugin
	link Link
	// timeout bounds an answer.
	timeout time.Duration
	// mayUpdate is true if the runtime stands updates that it did not ask for.
	mayUpdate bool
	// cancel ends the connection. over is set when it has ended.
	cancel context.CancelCauseFunc
	over   atomic.Bool
	// open are the requests that are not answered yet.
	open atomic.Int64
}

// answer bounds a request. What it returns is called with the outcome.
func (s *session) answer(ctx context.Context, hook string) (context.Context, func(*error)) {
	begin := s.config.Now()
	s.open.Add(1)
	ctx, cancel := context.WithTimeout(s.config.Operation(ctx), s.timeout)
	return ctx, func(err *error) {
		cancel()
		s.open.Add(-1)
		s.config.Observer.Hook(hook, s.config.Now().Sub(begin), *err)
	}
}

// Configure learns which runtime there is.
func (s *session) Configure(ctx context.Context, _, runtime, release string) (api.EventMask, error) {
	if s.over.Load() {
		return 0, errGone
	}
	nri := s.link.RuntimeNRIVersion()
	mayUpdate, timeout := standsUpdates(runtime, release, nri), s.config.Timeout
	if theirs := s.link.RequestTimeout(); theirs > 0 {
		timeout = min(timeout, theirs/2)
	}
	counts, err := ask(ctx, s.Plugin, func(l *loop) bool {
		if l.session != s {
			return false
		}
		s.mayUpdate, s.timeout = mayUpdate, timeout
		return true
	})
	if err != nil {
		return 0, err
	}
	if !counts {
		return 0, errGone
	}
	s.config.Log.InfoContext(ctx, "connected to the runtime", "runtime", runtime, "version", release, "nri", nri, "answers_within", timeout.String())
	if !mayUpdate {
		s.config.Log.WarnContext(ctx, "this runtime may hang on updates that it did not ask for: they wait for the next container that starts or stops, "+
			"or, after some seconds, for a new connection", "need_nri", "0.12.1", "runtime", runtime, "version", release)
	}
	return 0, nil
}

// RunPodSandbox plans the whole pod.
func (s *session) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) (err error) {
	ctx, done := s.answer(ctx, "RunPodSandbox")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil
	}
	managed, err := s.entered(ctx, pod)
	if err != nil || !managed {
		return err
	}
	grant, err := s.admit(ctx, pod, s.lookupOrEstimate)
	if err != nil {
		s.tell(context.WithoutCancel(ctx), func(l *loop) { l.leave(s, pod.GetId()) })
		return err
	}
	s.setQuota(ctx, grant, grant.PodQuota(s.config.Engine.State().Policy()), []string{pod.GetLinux().GetCgroupParent()})
	return nil
}

// entered tells the loop of a sandbox. It returns false if this node is not managed.
func (s *session) entered(ctx context.Context, pod *api.PodSandbox) (managed bool, err error) {
	type answer struct {
		managed bool
		err     error
	}
	a, err := ask(ctx, s.Plugin, func(l *loop) (a answer) {
		a.managed, a.err = l.enter(s, sandboxFrom(pod))
		return a
	})
	if err == nil {
		err = a.err
	}
	return a.managed, err
}

func sandboxFrom(pod *api.PodSandbox) *sandbox {
	return &sandbox{id: pod.GetId(), pod: pod.GetUid(), who: podName(pod), parent: pod.GetLinux().GetCgroupParent()}
}

func podName(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

// CreateContainer returns what a container runs on, and makes room for it.
func (s *session) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (_ *api.ContainerAdjustment, _ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "CreateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil, nil, nil
	}
	fail := func(err error) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
		return nil, nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	comes, err := settingOf(c.GetLinux().GetResources())
	if err != nil {
		return fail(err)
	}
	managed, err := s.comes(ctx, pod, c, comes, hasCPUSet(c.GetLinux().GetResources()))
	if err != nil || !managed {
		return nil, nil, err
	}
	if s.grant(pod.GetUid()) == nil { // Its sandbox was created without us, or the disk stalls.
		if _, err = s.admit(ctx, pod, s.lookupOrEstimate); err != nil {
			return nil, nil, err
		}
	}
	made := &container{id: c.GetId(), pod: pod.GetUid(), name: c.GetName(), path: c.GetLinux().GetCgroupsPath()}
	p, err := ask(ctx, s.Plugin, func(l *loop) placed { return l.create(s, made) })
	if err == nil {
		err = p.err
	}
	if err != nil {
		return fail(err)
	}
	return adjustment(p.setting), updatesOf(p.updates), nil
}

// comes tells the loop of a container that comes with CPUs of another manager's. It reports whether this
// node is managed.
func (s *session) comes(ctx context.Context, pod *api.PodSandbox, c *api.Container, setting converge.Setting, pinned bool) (managed bool, err error) {
	if !pinned {
		return ask(ctx, s.Plugin, (*loop).managed)
	}
	counts, err := ask(ctx, s.Plugin, func(l *loop) bool { return l.pinned(s, c.GetId(), foreigner{podName(pod), c.GetName(), setting}) })
	if err == nil && !counts {
		err = errGone
	}
	return false, err
}

// PostCreateContainer is the proof that a container exists, and that the updates beside it are made.
func (s *session) PostCreateContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "PostCreateContainer")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, func(l *loop) bool { return l.created(s, c.GetId()) })
	return err
}

// StartContainer proves the same, for runtimes that do not report the creation.
func (s *session) StartContainer(ctx context.Context, _ *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "StartContainer")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, func(l *loop) bool { return l.created(s, c.GetId()) })
	return err
}

// UpdateContainer keeps a resize away from what is ours.
func (s *session) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) (_ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "UpdateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil, nil
	}
	setting, err := settingOf(r)
	if err != nil {
		return nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	managed, err := s.comes(ctx, pod, c, setting, hasCPUSet(r))
	if err != nil || !managed {
		return nil, err
	}
	p, err := ask(ctx, s.Plugin, func(l *loop) placed { return l.resize(s, c.GetId(), pod.GetUid()) })
	if err == nil {
		err = p.err
	}
	return updatesOf(p.updates), err
}

// UpdatePodSandbox notes that a pod asks for something else.
func (s *session) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) (err error) {
	ctx, done := s.answer(ctx, "UpdatePodSandbox")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, func(l *loop) bool { return l.resizing(s, pod.GetUid()) })
	return err
}

// What ends is only noted: these requests never fail, since a runtime that cannot stop or remove would
// keep what should be gone. Under NRI's failure policy a runtime fails them by itself when no answer
// comes in time; the kubelet tries again.

// StopContainer forgets that a container runs. The reply carries updates that wait.
func (s *session) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	ctx, done := s.answer(ctx, "StopContainer")
	p, err := ask(ctx, s.Plugin, func(l *loop) placed { return l.end(s, c.GetId(), pod.GetUid(), true) })
	done(&err)
	return updatesOf(p.updates), nil
}

// RemoveContainer forgets a container.
func (s *session) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	ctx, done := s.answer(ctx, "RemoveContainer")
	_, err := ask(ctx, s.Plugin, func(l *loop) placed { return l.end(s, c.GetId(), pod.GetUid(), false) })
	done(&err)
	return nil
}

// StopPodSandbox forgets a sandbox.
func (s *session) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, done := s.answer(ctx, "StopPodSandbox")
	_, err := ask(ctx, s.Plugin, func(l *loop) bool { return l.leave(s, pod.GetId()) })
	done(&err)
	return nil
}

// RemovePodSandbox forgets a sandbox, as StopPodSandbox does.
func (s *session) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, done := s.answer(ctx, "RemovePodSandbox")
	_, err := ask(ctx, s.Plugin, func(l *loop) bool { return l.leave(s, pod.GetId()) })
	done(&err)
	return nil
}

// Synchronize takes what runs as the table, releases what is gone, plans what runs without a
// grant, and updates what does not run where it should.
func (s *session) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) (_ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "Synchronize")
	defer func() { done(&err) }()
	o, err := ask(ctx, s.Plugin, func(l *loop) observed { return l.observe(s, pods, containers) })
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, err
	}
	var missed []string
	sights := s.readWithin(ctx, o.sights)
	if o.managed {
		s.releaseGone(ctx)
		missed = s.adopt(ctx, o.without)
	}
	p, err := ask(context.WithoutCancel(ctx), s.Plugin, func(l *loop) placed { return l.synchronise(s, missed, sights) })
	if err == nil {
		err = p.err
	}
	return updatesOf(p.updates), err
}
