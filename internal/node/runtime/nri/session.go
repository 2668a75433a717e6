package nri

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/converge"
)

// session answers the requests of one connection. A request becomes an event of the loop, and is
// answered before its deadline. It waits for the source of pods and for the disk in its own
// goroutine.
type session struct {
	*Plugin
	link Link
	// timeout limits the time of an answer.
	timeout time.Duration
	// mayUpdate is true if the runtime takes unsolicited updates.
	mayUpdate bool
	// cancel ends the connection. over is true when it has ended.
	cancel context.CancelCauseFunc
	over   atomic.Bool
	// open are the requests that are not answered yet, answered is the time of the last answer.
	open     atomic.Int64
	answered atomic.Pointer[time.Time]
	// renewing is true while requests that create or resize something fail, because the connection
	// is about to end.
	renewing atomic.Bool
	// listsLate is true if the runtime synchronises while it creates containers, and does not show
	// them then.
	listsLate bool
}

// answer limits the time of a request. The caller calls the function that it returns with the
// outcome.
func (s *session) answer(ctx context.Context, hook string) (context.Context, func(*error)) {
	begin := s.config.Now()
	s.open.Add(1)
	ctx, cancel := context.WithTimeout(s.config.Operation(ctx), s.timeout)
	return ctx, func(err *error) {
		cancel()
		now := s.config.Now()
		s.answered.Store(&now)
		s.open.Add(-1)
		s.config.Observer.Hook(hook, now.Sub(begin), *err)
	}
}

// Configure gets the runtime's name and version.
func (s *session) Configure(ctx context.Context, _, runtime, release string) (api.EventMask, error) {
	if s.over.Load() {
		return 0, errGone
	}
	nri := s.link.RuntimeNRIVersion()
	mayUpdate, timeout := takesUpdates(runtime, release, nri), s.config.Timeout
	if theirs := s.link.RequestTimeout(); theirs > 0 {
		timeout = min(timeout, theirs/2)
	}
	counts, err := ask(ctx, s.Plugin, "Configure", func(l *loop) bool {
		if l.session != s {
			return false
		}
		s.mayUpdate, s.timeout, s.listsLate = mayUpdate, timeout, runtime == "cri-o"
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
		s.config.Log.WarnContext(ctx, "this runtime can hang on unsolicited updates: updates wait until a container starts or stops, "+
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
	if s.renewing.Load() {
		return errRenewing
	}
	type answer struct {
		managed bool
		err     error
	}
	entered, err := ask(ctx, s.Plugin, "RunPodSandbox", func(l *loop) (a answer) {
		a.managed, a.err = l.enter(s, sandboxFrom(pod))
		return a
	})
	leave := func(l *loop) { l.leave(s, pod.GetId()) }
	if err != nil {
		s.surely(ctx, "leave", leave)
		return err
	}
	if !entered.managed || entered.err != nil {
		return entered.err
	}
	grant, err := s.admit(ctx, pod, s.lookupOrEstimate)
	if err != nil {
		s.surely(ctx, "leave", leave)
		return err
	}
	s.setQuotaWithin(ctx, grant, grant.PodQuota(s.config.Engine.State().Policy()), []string{pod.GetLinux().GetCgroupParent()})
	return nil
}

func sandboxFrom(pod *api.PodSandbox) *sandbox {
	return &sandbox{id: pod.GetId(), pod: pod.GetUid(), who: podName(pod), parent: pod.GetLinux().GetCgroupParent(), grant: handover.TextOf(pod.GetAnnotations())}
}

// containerFrom is a container without what is known of its setting.
func containerFrom(pod *api.PodSandbox, c *api.Container) *container {
	return &container{id: c.GetId(), pod: pod.GetUid(), name: c.GetName(), path: c.GetLinux().GetCgroupsPath()}
}

func podName(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

// CreateContainer returns the setting of a container, and makes room for it.
func (s *session) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (_ *api.ContainerAdjustment, _ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "CreateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil, nil, nil
	}
	if s.renewing.Load() {
		return nil, nil, errRenewing
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
	if s.grant(pod.GetUid()) == nil { // Its sandbox was created without Paddock, or the disk stalls.
		if _, err = s.admit(ctx, pod, s.lookupOrEstimate); err != nil {
			return nil, nil, err
		}
	}
	made := containerFrom(pod, c)
	s.glance(ctx)
	p, err := ask(ctx, s.Plugin, "CreateContainer", func(l *loop) placed { return l.create(s, sandboxFrom(pod), made) })
	if err == nil {
		err = p.err
	}
	if err != nil {
		return fail(err)
	}
	var adjustment *api.ContainerAdjustment
	if r := resources(p.setting); r != nil {
		adjustment = &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: r}}
	}
	if s.config.Notices == nil {
		return adjustment, updatesOf(p.updates), nil
	}
	n := p.noticed
	n.Namespace, n.Pod, n.Annotations = pod.GetNamespace(), pod.GetName(), pod.GetAnnotations()
	for _, m := range c.GetMounts() {
		n.Mounts = append(n.Mounts, m.GetDestination())
	}
	within, cancel := context.WithTimeout(ctx, s.timeout/4)
	defer cancel()
	if m := s.config.Notices.Open(within, n); m.Source != "" {
		if adjustment == nil {
			adjustment = &api.ContainerAdjustment{}
		}
		adjustment.AddMount(&api.Mount{Source: m.Source, Destination: m.Destination, Type: "bind", Options: options})
	}
	return adjustment, updatesOf(p.updates), nil
}

// comes notes a container that comes with CPUs of another manager. It reports whether Paddock
// manages this node.
func (s *session) comes(ctx context.Context, pod *api.PodSandbox, c *api.Container, setting converge.Setting, pinned bool) (managed bool, err error) {
	if !pinned {
		return ask(ctx, s.Plugin, "managed", (*loop).managed)
	}
	counts, err := ask(ctx, s.Plugin, "pinned", func(l *loop) bool { return l.pinned(s, c.GetId(), foreigner{podName(pod), c.GetName(), setting}) })
	if err == nil && !counts {
		err = errGone
	}
	return false, err
}

// PostCreateContainer proves that a container exists, and that the updates in the reply to its
// creation were made.
func (s *session) PostCreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "PostCreateContainer")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, "created", func(l *loop) bool { return l.created(s, sandboxFrom(pod), containerFrom(pod, c)) })
	return err
}

// StartContainer proves the same, for runtimes that do not report the creation.
func (s *session) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "StartContainer")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, "created", func(l *loop) bool { return l.created(s, sandboxFrom(pod), containerFrom(pod, c)) })
	return err
}

// PostStartContainer proves that a container runs: from now on updates reach it.
func (s *session) PostStartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "PostStartContainer")
	defer func() { done(&err) }()
	_, err = ask(ctx, s.Plugin, "PostStartContainer", func(l *loop) bool { return l.started(s, sandboxFrom(pod), containerFrom(pod, c)) })
	return err
}

// UpdateContainer keeps a container's CPUs, memory nodes and quota in a resize.
func (s *session) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) (_ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "UpdateContainer")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil, nil
	}
	if s.renewing.Load() {
		return nil, errRenewing
	}
	setting, err := settingOf(r)
	if err != nil {
		return nil, fmt.Errorf("paddock: container %s of pod %s: %w", c.GetName(), podName(pod), err)
	}
	managed, err := s.comes(ctx, pod, c, setting, hasCPUSet(r))
	if err != nil || !managed {
		return nil, err
	}
	if _, err = s.asks(ctx, pod.GetUid(), false); err != nil {
		return nil, err
	}
	due, err := s.resize(ctx, pod, c.GetName(), r)
	if err != nil {
		return nil, err
	}
	s.glance(ctx)
	p, err := ask(ctx, s.Plugin, "UpdateContainer", func(l *loop) placed { return l.resizeContainer(s, sandboxFrom(pod), containerFrom(pod, c), due) })
	if err == nil {
		err = p.err
	}
	return updatesOf(p.updates), err
}

// UpdatePodSandbox decides about a resize before the kubelet changes the pod's cgroup.
func (s *session) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, _, r *api.LinuxResources) (err error) {
	ctx, done := s.answer(ctx, "UpdatePodSandbox")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil
	}
	if s.renewing.Load() {
		return errRenewing
	}
	managed, err := s.asks(ctx, pod.GetUid(), true)
	if err != nil || !managed {
		return err
	}
	_, err = s.resize(ctx, pod, "", r)
	return err
}

// The requests about the end of containers and sandboxes never fail, because a runtime that cannot
// stop or remove something would keep it. Under NRI's failure policy the runtime itself fails them
// if no answer comes in time, and the kubelet tries again.

// StopContainer forgets that a container runs. The reply contains updates that wait.
func (s *session) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	ctx, done := s.answer(ctx, "StopContainer")
	s.glance(ctx)
	p, err := ask(ctx, s.Plugin, "StopContainer", func(l *loop) placed { return l.end(s, c.GetId(), pod.GetUid(), true) })
	done(&err)
	return updatesOf(p.updates), nil
}

// RemoveContainer forgets a container.
func (s *session) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	ctx, done := s.answer(ctx, "RemoveContainer")
	_, err := ask(ctx, s.Plugin, "RemoveContainer", func(l *loop) placed { return l.end(s, c.GetId(), pod.GetUid(), false) })
	done(&err)
	return nil
}

// StopPodSandbox forgets a sandbox.
func (s *session) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, done := s.answer(ctx, "StopPodSandbox")
	_, err := ask(ctx, s.Plugin, "leave", func(l *loop) bool { return l.leave(s, pod.GetId()) })
	done(&err)
	return nil
}

// RemovePodSandbox forgets a sandbox, as StopPodSandbox does.
func (s *session) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, done := s.answer(ctx, "RemovePodSandbox")
	_, err := ask(ctx, s.Plugin, "leave", func(l *loop) bool { return l.leave(s, pod.GetId()) })
	done(&err)
	return nil
}

// Synchronize replaces the table with what runs, releases the pods that are gone, plans the pods
// that run without a grant, and updates the containers that do not have their settings.
func (s *session) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) (_ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "Synchronize")
	defer func() { done(&err) }()
	o, err := ask(ctx, s.Plugin, "observe", func(l *loop) observed { return l.observe(s, pods, containers) })
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, err
	}
	var missed []string
	sights := s.readWithin(ctx, o.sights)
	if o.managed {
		_ = s.releaseGone(ctx) // The next round reports it.
		missed = s.adopt(ctx, o.without, s.timeout)
	}
	// The adoption may have used up the time. The runtime waits for twice as long.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout/2)
	defer cancel()
	p, err := ask(ending, s.Plugin, "Synchronize", func(l *loop) placed { return l.synchronise(s, append(o.unasked, missed...), sights) })
	if err == nil {
		err = p.err
	}
	return updatesOf(p.updates), err
}
