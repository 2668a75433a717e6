package nri

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/control"
)

// session answers the requests of one connection. A request becomes an event of the loop, and is
// answered before its deadline. The session waits for the source of pods and for the disk in its
// own goroutine.
type session struct {
	*Plugin
	id   uint64
	link Link
	// timeout limits the time of an answer.
	timeout time.Duration
	// cancel ends the connection. over is true when it has ended.
	cancel context.CancelCauseFunc
	over   atomic.Bool
	// open counts the requests that are not answered yet. answered is the time of the last answer.
	open     atomic.Int64
	answered atomic.Pointer[time.Time]
}

// lastAnswer returns the time of the last answer, or zero if there was none.
func (s *session) lastAnswer() time.Time {
	if at := s.answered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// answer limits the time of a request. The caller must call the returned function with the outcome.
func (s *session) answer(ctx context.Context, hook string) (context.Context, func(*error)) {
	begin := s.config.Now()
	s.open.Add(1)
	ctx, cancel := context.WithTimeout(s.config.Operation(ctx), s.timeout)
	ctx = context.WithValue(ctx, untilKey{}, begin.Add(s.timeout))
	return ctx, func(err *error) {
		cancel()
		now := s.config.Now()
		s.answered.Store(&now)
		s.open.Add(-1)
		took := now.Sub(begin)
		s.config.Observer.Hook(hook, took, *err)
		s.slow.note("the answer to "+hook, took, now)
	}
}

// untilKey is the context key of until.
type untilKey struct{}

// until returns the time at which the request of a context must be answered, on the clock of the
// loop.
func until(ctx context.Context) time.Time {
	at, _ := ctx.Value(untilKey{}).(time.Time)
	return at
}

// Configure receives the runtime's name and version, and returns the events to subscribe to.
func (s *session) Configure(ctx context.Context, _, runtime, release string) (api.EventMask, error) {
	if s.over.Load() || ctx.Err() != nil {
		return 0, control.ErrGone
	}
	nri := s.link.RuntimeNRIVersion()
	mayUpdate, timeout := unsolicited.in(runtime, release, nri), s.config.Timeout
	if theirs := s.link.RequestTimeout(); theirs > 0 {
		timeout = min(timeout, theirs/2)
	}
	counts, err := ask[bool](ctx, s.Plugin, control.Configured{Connection: s.id, MayUpdate: mayUpdate, ListsLate: runtime == "cri-o"})
	if err != nil {
		return 0, err
	}
	if !counts {
		return 0, control.ErrGone
	}
	s.timeout = timeout // The runtime sends no request before it has this answer.
	s.slow.limits(timeout, s.link.RequestTimeout())
	s.config.Log.InfoContext(ctx, "connected to the runtime", "runtime", runtime, "version", release, "nri", nri, "answers_within", timeout.String())
	if !mayUpdate {
		s.config.Log.WarnContext(ctx, "this runtime can hang on unsolicited updates: updates wait until a container starts or stops, "+
			"or, after some seconds, for a new connection", "need_nri", unsolicited.nri.String(), "runtime", runtime, "version", release)
	}
	if leavesSandboxes(runtime, release) {
		s.config.Log.WarnContext(ctx, "this runtime leaves a process of each rejected pod behind, one for each attempt of the kubelet: "+
			"update it to 2.2.8, 2.3.4, 2.4.0 or later, or let paddock-scheduler bind the pods", "runtime", runtime, "version", release)
	}
	if !podUpdates.in(runtime, release, nri) {
		return withoutPodUpdates, nil
	}
	return 0, nil // every event that the session handles
}

// RunPodSandbox plans the whole pod.
func (s *session) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) (err error) {
	ctx, done := s.answer(ctx, "RunPodSandbox")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil
	}
	leave := control.Leave{Connection: s.id, Pod: pod.GetUid(), ID: pod.GetId()}
	entered, err := askSurely[control.Managed](ctx, s.Plugin, control.Enter{Connection: s.id, Box: sandboxFrom(pod)}, leave)
	if err != nil {
		return err
	}
	if !entered.Managed || entered.Err != nil {
		return entered.Err
	}
	grant, err := s.admit(ctx, pod)
	if err != nil {
		s.surely(ctx, leave)
		return err
	}
	s.setQuotaWithin(ctx, grant, quota.OfPod(grant, s.config.Engine.State().Policy()), []string{pod.GetLinux().GetCgroupParent()})
	return nil
}

// admit makes sure that a pod has a durable grant.
func (s *session) admit(ctx context.Context, pod *api.PodSandbox) (*node.Grant, error) {
	a, err := askJobs[control.Admitted](ctx, s, control.Admit{Connection: s.id, Box: sandboxFrom(pod), Shown: pod, Until: until(ctx)}, s.timeout/16)
	if err == nil {
		err = a.Err
	}
	return a.Grant, err
}

func podName(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

// CreateContainer returns the setting of a container, and the updates that make room for it.
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
	if s.grant(pod.GetUid()) == nil { // The sandbox was created without Paddock, or the disk stalls.
		if _, err = s.admit(ctx, pod); err != nil {
			return nil, nil, err
		}
	}
	s.glance(ctx)
	p, err := s.place(ctx, control.Create{Connection: s.id, Box: sandboxFrom(pod), Of: containerFrom(pod, c)})
	if err != nil {
		return fail(err)
	}
	var adjustment *api.ContainerAdjustment
	if r := resources(p.Setting); r != nil {
		adjustment = &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: r}}
	}
	if rdt := s.config.Classes.rdt(s.config.Engine.State().Machine(), s.grant(pod.GetUid()), c.GetName()); rdt != nil {
		if adjustment == nil {
			adjustment = &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{}}
		}
		adjustment.Linux.Rdt = rdt
	}
	if s.config.Notices == nil {
		return adjustment, updatesOf(p.Updates), nil
	}
	n := p.Noticed
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
	return adjustment, updatesOf(p.Updates), nil
}

// place passes an event whose answer has updates to the loop, and returns the answer.
func (s *session) place(ctx context.Context, of control.Occurrence) (control.Placed, error) {
	p, err := ask[control.Placed](ctx, s.Plugin, of)
	if err == nil {
		err = p.Err
	}
	return p, err
}

// comes notifies the loop of a container that comes with the CPUs of another manager. It reports
// whether Paddock manages this node.
func (s *session) comes(ctx context.Context, pod *api.PodSandbox, c *api.Container, setting converge.Setting, pinned bool) (managed bool, err error) {
	come := control.Come{Connection: s.id, ID: c.GetId(), Pod: podName(pod), Name: c.GetName()}
	if pinned {
		come.Pinned = &setting
	}
	a, err := ask[control.Managed](ctx, s.Plugin, come)
	if err == nil {
		err = a.Err
	}
	return a.Managed, err
}

// asks notifies the loop that the runtime asks about a resize: of a whole pod, or of a container.
// It reports whether Paddock manages the node.
func (s *session) asks(ctx context.Context, uid string, whole bool) (managed bool, err error) {
	a, err := ask[control.Managed](ctx, s.Plugin, control.Resizing{Connection: s.id, UID: uid, Whole: whole})
	if err == nil {
		err = a.Err
	}
	return a.Managed, err
}

// resize decides about a resize that the kubelet is about to apply: to a container or, if container
// is empty, to a pod. The error stops the kubelet before it changes a cgroup, and its text is shown
// to the user.
func (s *session) resize(ctx context.Context, pod *api.PodSandbox, container string, shown *api.LinuxResources) (due bool, err error) {
	d, err := askJobs[control.ResizeDecided](ctx, s, control.Resize{Box: sandboxFrom(pod), Container: container, Shown: amountsShown(shown), Until: until(ctx)}, s.timeout/16)
	if err == nil {
		err = d.Err
	}
	return d.Due, err
}

// PostCreateContainer confirms that a container exists, and that the updates in the reply to its
// creation were applied.
func (s *session) PostCreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "PostCreateContainer")
	defer func() { done(&err) }()
	_, err = ask[any](ctx, s.Plugin, control.Created{Connection: s.id, Box: sandboxFrom(pod), Of: containerFrom(pod, c)})
	return err
}

// StartContainer confirms the same, for runtimes that do not report the creation.
func (s *session) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "StartContainer")
	defer func() { done(&err) }()
	_, err = ask[any](ctx, s.Plugin, control.Created{Connection: s.id, Box: sandboxFrom(pod), Of: containerFrom(pod, c)})
	return err
}

// PostStartContainer confirms that a container runs. From now on updates reach it.
func (s *session) PostStartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (err error) {
	ctx, done := s.answer(ctx, "PostStartContainer")
	defer func() { done(&err) }()
	_, err = ask[any](ctx, s.Plugin, control.Started{Connection: s.id, Box: sandboxFrom(pod), Of: containerFrom(pod, c)})
	return err
}

// UpdateContainer preserves a container's CPUs, memory nodes and quota in a resize.
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
	if _, err = s.asks(ctx, pod.GetUid(), false); err != nil {
		return nil, err
	}
	due, err := s.resize(ctx, pod, c.GetName(), r)
	if err != nil {
		return nil, err
	}
	s.glance(ctx)
	p, err := s.place(ctx, control.ResizeContainer{Connection: s.id, Box: sandboxFrom(pod), Of: containerFrom(pod, c), Due: due})
	return updatesOf(p.Updates), err
}

// UpdatePodSandbox decides about a resize before the kubelet changes the pod's cgroup.
func (s *session) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, _, r *api.LinuxResources) (err error) {
	ctx, done := s.answer(ctx, "UpdatePodSandbox")
	defer func() { done(&err) }()
	if pod.GetUid() == "" {
		return nil
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
// if no answer comes in time, and the kubelet tries again. A runtime need not ask again, so the
// loop gets an end later if it was not answered in time.

// StopContainer removes a container from those that run. The reply contains updates that wait.
func (s *session) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	ctx, done := s.answer(ctx, "StopContainer")
	s.glance(ctx)
	end := control.End{Connection: s.id, ID: c.GetId(), Pod: pod.GetUid()}
	replies := end
	replies.Replies = true
	p, err := askSurely[control.Placed](ctx, s.Plugin, replies, end)
	done(&err)
	return updatesOf(p.Updates), nil
}

// RemoveContainer removes a container from the loop's table.
func (s *session) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	ctx, done := s.answer(ctx, "RemoveContainer")
	end := control.End{Connection: s.id, ID: c.GetId(), Pod: pod.GetUid()}
	_, err := askSurely[control.Placed](ctx, s.Plugin, end, end)
	done(&err)
	return nil
}

// StopPodSandbox removes a sandbox from the loop's table.
func (s *session) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return s.leave(ctx, "StopPodSandbox", pod)
}

// RemovePodSandbox removes a sandbox, as StopPodSandbox does.
func (s *session) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return s.leave(ctx, "RemovePodSandbox", pod)
}

func (s *session) leave(ctx context.Context, hook string, pod *api.PodSandbox) error {
	ctx, done := s.answer(ctx, hook)
	gone := control.Leave{Connection: s.id, Pod: pod.GetUid(), ID: pod.GetId()}
	_, err := askSurely[any](ctx, s.Plugin, gone, gone)
	done(&err)
	return nil
}

// Synchronize replaces the table with the pods and containers that run, releases the pods that are
// gone, plans the pods that run without a grant, and updates the containers that do not have their
// settings.
func (s *session) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) (_ []*api.ContainerUpdate, err error) {
	ctx, done := s.answer(ctx, "Synchronize")
	defer func() { done(&err) }()
	shown := shownBy(s.id, pods, containers)
	shown.Until = until(ctx)
	p, err := askJobs[control.Placed](ctx, s, shown, s.timeout/2)
	if err == nil {
		err = p.Err
	}
	return updatesOf(p.Updates), err
}
