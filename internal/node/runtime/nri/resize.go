package nri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrResizeRejected is wrapped by the error that stops a resize because the node rejects it.
var ErrResizeRejected = errors.New("paddock rejects the resize of the pod")

// Errors of a resize about which nothing can be decided now. The kubelet tries again.
var (
	errNotListed    = errors.New("the kubelet's list does not have a usable specification of it")
	errOtherRequest = errors.New("the kubelet applies another request than the one in its list, which it has not accepted")
)

// The times of a resize.
const (
	// relift is how often the quota of a pod is looked at while the kubelet resizes it: it writes
	// its own after our answer, and a pod without exclusive time for a second is a pod that was
	// throttled ten periods.
	relift = 250 * time.Millisecond
	// relifting is how long that goes on after the last request of the runtime about the resize.
	// The kubelet writes at once after the answer; what comes later the regular rounds find.
	relifting = 10 * time.Second
	// awaiting is how long a container with CPUs of its own is left to the kubelet after its resize
	// was decided. The kubelet changes it at once, and our reply to that has the CPUs. An
	// unsolicited update that came first would be undone if the agent ended before it could answer
	// the kubelet.
	awaiting = 5 * time.Second
	// carriedOut is how long a pod is listed with another request until the loop follows it without
	// having been asked. The kubelet decides within a second whether it accepts a resize, and asks
	// the runtime then; its list shows a few seconds later that it does not accept one.
	carriedOut = 15 * time.Second
)

// resize decides about what the kubelet is about to change: the whole request of the pod, at the
// first message that has a part of it. container is the one that the message is about, empty: the
// pod. The error stops the kubelet before it changes a cgroup, and the user sees its text. due
// reports whether the kubelet must have asked about the whole pod before.
func (s *session) resize(ctx context.Context, box *api.PodSandbox, container string, shown *api.LinuxResources) (due bool, err error) {
	g := s.grant(box.GetUid())
	if g == nil || g.Pod.Estimated && !g.OwnsAnything() {
		return false, nil // There is nothing to resize. Its request is decided like that of a new pod.
	}
	call, exact := amountsShown(shown), g.Pod.QoS == request.Guaranteed && !g.Pod.Estimated
	if exact && call == amountsOf(&g.Pod, container).shownIn(call) {
		return false, nil // The pod has that already.
	}
	again := func(why error) error {
		if !g.OwnsAnything() {
			return nil // No CPU depends on it. The loop follows the list.
		}
		return fmt.Errorf("paddock: pod %s cannot be resized now: %w; the kubelet tries again", podName(box), why)
	}
	within, cancel := context.WithTimeout(ctx, s.timeout/2)
	defer cancel()
	begin := s.config.Now()
	listed, err := s.config.Pods.List(within)
	s.config.Observer.Asked(s.config.Now().Sub(begin))
	if err != nil {
		return false, again(err)
	}
	wanted, pending, known := s.config.Pods.Latest(box.GetUid())
	if !known || len(wanted.Containers) == 0 {
		return false, again(errNotListed)
	}
	has, wants := amountsOf(&g.Pod, container), amountsOf(&wanted, container)
	if exact && !wanted.Equal(g.Pod) {
		switch about := call.about(has, wants); {
		case about == theOld:
			return false, nil // This message changes nothing, or another container.
		case about == neither, about == aPart && pending != "":
			return false, again(fmt.Errorf("%w (%s)", errOtherRequest, pendingText(pending)))
		}
		due = container != "" && call.grows(has, wants, amountsOfPod(&g.Pod), amountsOfPod(&wanted))
	} else if pending != "" {
		return false, nil
	}
	if s.config.Engine.PreviewResize(wanted).Rejection != nil {
		_, _ = ask(ctx, s.Plugin, "release", func(l *loop) bool { return l.release(listed, nil) }) // What is missing may be that of a pod that is gone.
	}
	return due, s.decide(ctx, wanted, true)
}

func pendingText(pending string) string {
	if pending == "" {
		return "its list is newer than the request that it applies"
	}
	return "PodResizePending: " + pending
}

// decide resizes a pod, and notes what became of it. asked is true if the kubelet changes the pod's
// containers next.
func (p *Plugin) decide(ctx context.Context, wanted request.Pod, asked bool) error {
	version := p.config.Engine.Snapshot().Version
	before, _ := ask(ctx, p, "vetoed", func(l *loop) vetoed { return l.vetoes[wanted.UID] }) // Without an answer it is decided again.
	if p.repeats(before, wanted, version) {
		return before.err // The kubelet tries again, and nothing has changed.
	}
	plan, err := p.config.Engine.Resize(ctx, wanted)
	switch {
	case err != nil:
		return fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", wanted.ID(), err)
	case plan.Rejection != nil:
		err = fmt.Errorf("%w %s: %w%s", ErrResizeRejected, wanted.ID(), plan.Rejection, account(plan.Rejection, mostAccount))
	}
	p.surely(ctx, "resized", func(l *loop) { l.resized(vetoed{wanted, version, l.config.Now(), err}, asked) })
	return err
}

// vetoed is a resize that was rejected, when, and the version of the state that the decision is
// based on.
type vetoed struct {
	pod     request.Pod
	version uint64
	at      time.Time
	err     error
}

// repeats reports whether a veto answers for a pod that asks for the same again. A promise to
// another pod ends without a change of the state.
func (p *Plugin) repeats(v vetoed, wanted request.Pod, version uint64) bool {
	if v.err == nil || v.version != version || !v.pod.Equal(wanted) {
		return false
	}
	promises := p.config.Handover != nil || p.config.Moves.Promises != nil
	return !promises || p.config.Now().Sub(v.at) < rechecked
}

// resized is an event: a resize was decided; v is its rejection, or has no error. asked is
// decide's.
func (l *loop) resized(v vetoed, asked bool) {
	delete(l.vetoes, v.pod.UID)
	if v.err != nil {
		l.vetoes[v.pod.UID] = v
	} else {
		l.sizing[v.pod.UID] = l.config.Now()
	}
	if asked && v.err == nil {
		l.await(v.pod.UID)
	}
	l.publish()
	l.shortly()
}

// await leaves the containers of a pod that have CPUs of their own to the kubelet for a while. It
// need not change the others: their CPUs can be those that the pod as a whole got or gave back.
func (l *loop) await(uid string) {
	g, known := l.config.Engine.State().Grant(uid)
	if !known {
		return
	}
	for _, c := range l.table.containers {
		if c.pod != uid {
			continue
		}
		if _, i := g.Pod.Container(c.name); i >= 0 && g.Isolation(i) == node.ContainerIsolation {
			c.awaited = l.config.Now().Add(awaiting)
		}
	}
}

// asks notes that the runtime asks about a resize of a pod, as a whole or of a container, after
// whose answer the kubelet may write the pod's quota. It reports whether Paddock manages the node.
func (s *session) asks(ctx context.Context, uid string, whole bool) (managed bool, err error) {
	type answer struct{ counts, managed bool }
	a, err := ask(ctx, s.Plugin, "resize", func(l *loop) answer {
		if !l.asked(s) {
			return answer{}
		}
		if len(l.lifting) == 0 {
			l.liftLater()
		}
		l.table.heard[uid] = l.config.Now()
		l.lifting[uid] = l.config.Now().Add(relifting)
		l.forwards = l.forwards || whole
		return answer{true, l.managed()}
	})
	if err == nil && !a.counts {
		err = errGone
	}
	return a.managed, err
}

// liftLater makes lift come.
func (l *loop) liftLater() {
	later := l.config.After(relift)
	l.jobs.Go(func() {
		select {
		case <-later:
			l.tell(l.ctx, "lift", (*loop).lift)
		case <-l.ctx.Done():
		}
	})
}

// lift is an event: the quotas of the pods that the kubelet resizes are written again.
func (l *loop) lift() {
	now := l.config.Now()
	var due []string
	for uid, until := range l.lifting {
		if due = append(due, uid); now.After(until) {
			delete(l.lifting, uid)
		}
	}
	if len(l.lifting) > 0 {
		l.liftLater()
	}
	if l.managed() {
		l.keepQuotas("lift", due)
	}
}

// unasked is a pod that is listed with another request than the one that its grant has, and since
// when.
type unasked struct {
	pod   request.Pod
	since time.Time
}

// follow resizes the pods whose request the kubelet has carried out without asking: the runtime
// does not forward its calls, the agent was away, or the containers of a pod were created again,
// which then have what was rejected before.
func (l *loop) follow() {
	now := l.config.Now()
	version := l.config.Engine.Snapshot().Version
	var due []request.Pod
	there := map[string]bool{}
	for _, g := range l.config.Engine.State().Grants() {
		uid := g.Pod.UID
		there[uid] = true
		pod, pending, known := l.config.Pods.Latest(uid)
		if !known || pending != "" || len(pod.Containers) == 0 || g.Pod.Estimated || pod.Equal(g.Pod) {
			delete(l.behind, uid)
			continue
		}
		switch late := l.behind[uid]; {
		case !late.pod.Equal(pod):
			l.behind[uid] = unasked{pod, now}
			l.within(carriedOut)
		case now.Sub(late.since) < carriedOut:
			l.within(carriedOut - now.Sub(late.since))
		default:
			if !l.repeats(l.vetoes[uid], pod, version) {
				due = append(due, pod)
			}
		}
	}
	for uid := range l.behind {
		if !there[uid] {
			delete(l.behind, uid)
		}
	}
	for uid := range l.vetoes {
		if !there[uid] {
			delete(l.vetoes, uid)
		}
	}
	maps.DeleteFunc(l.sizing, func(_ string, at time.Time) bool { return now.Sub(at) > relifting })
	if len(due) == 0 {
		return
	}
	connected, vetoes := l.since, maps.Clone(l.vetoes)
	l.job("follow", func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Timeout)
		defer cancel()
		owns := false
		for _, pod := range due {
			if g := l.grant(pod.UID); g != nil && g.OwnsAnything() {
				owns = true
			}
			if err := l.decide(asked, pod, false); err != nil && (vetoes[pod.UID].err == nil || vetoes[pod.UID].err.Error() != err.Error()) {
				l.config.Log.ErrorContext(ctx, "the kubelet lists a pod with another request: the pod keeps what it has", "pod", pod.ID(), "uid", pod.UID, "error", err)
			}
		}
		return func(l *loop) {
			if owns && l.synchronised && l.since.Equal(connected) {
				l.reportNoVeto("pods were resized without an UpdatePodSandbox request")
			}
		}
	})
}

// reportNoVeto notes, and logs once, that the runtime does not ask before a pod is resized.
func (l *loop) reportNoVeto(why string) {
	if l.noVeto != nil || l.forwards {
		return
	}
	l.noVeto = fmt.Errorf("the runtime does not ask before a pod is resized (%s): the pod's cgroup changes before Paddock decides, and Paddock cannot reject a resize of the pod alone, "+
		"but finds it later in the kubelet's list; use a runtime that has NRI's UpdatePodSandbox, such as containerd 2.4", why)
	l.config.Log.WarnContext(l.flow, "Paddock cannot decide about resizes before the kubelet carries them out", "why", l.noVeto)
	l.config.Observer.Vetoes(false)
	l.publish()
}

// resizeContainer is an event: the kubelet changes the resources of a container. CPUs, memory nodes
// and quota are Paddock's, in the same write. due is session.resize's.
func (l *loop) resizeContainer(s *session, box *sandbox, made *container, due bool) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	l.soon()
	l.learn(box, made)
	id := made.id
	known := l.table.containers[id]
	if known == nil {
		return placed{} // It has ended.
	}
	known.started() // A kubelet resizes what runs.
	known.awaited = time.Time{}
	if due {
		l.reportNoVeto("a container was changed without an UpdatePodSandbox request for its pod")
	}
	w := l.want()
	updates, stranded := l.compare(id)
	own := converge.Update{ID: id, Pod: known.pod, Container: known.name, Before: known.observed(w.State()).Setting, After: w.Setting(known.pod, known.name)}
	own.Before.Quota = node.KeepQuota // The kubelet writes another one with this request.
	// A runtime makes the updates of the others first, so none of them takes CPUs that this
	// container only leaves afterwards.
	updates, _ = l.table.safe(w, updates, merged)
	all, _ := l.table.safe(w, append(updates[:len(updates):len(updates)], own), merged)
	waits := true
	for _, u := range all {
		if u.ID == id {
			updates, waits = append(updates, u), false
		}
	}
	if waits && known.phase == settled && len(known.sent) == 0 {
		// Others have to leave its CPUs first. Until then it stays where it is, and the kubelet's
		// quota does not apply.
		own.After.CPUs, own.After.Mems = known.has.CPUs, known.has.Mems
		updates = append(updates, own)
	}
	by := l.begin("", false)
	l.reply(by, updates)
	l.reportStranded(stranded)
	return placed{updates: updates, by: by}
}
