package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The times of a resize.
const (
	// relift is how often the quota of a pod is checked while the kubelet resizes the pod. The
	// kubelet writes its own quota after our answer. A pod with exclusive CPUs that has the
	// kubelet's quota for one second can be throttled in ten periods.
	relift = 250 * time.Millisecond
	// relifting is how long these checks continue after the last request of the runtime about the
	// resize. The kubelet writes immediately after the answer. The regular rounds find anything
	// later.
	relifting = 10 * time.Second
	// awaiting is how long a container with CPUs of its own is left to the kubelet after its resize
	// was decided. The kubelet changes the container at once, and our reply to that has the CPUs.
	// An earlier unsolicited update would be undone if the agent ended before it could answer the
	// kubelet.
	awaiting = 5 * time.Second
	// carriedOut is how long a pod must be listed with another request before the loop follows that
	// request without having been asked. The kubelet decides within a second whether it accepts a
	// resize, and then asks the runtime. Its list shows a few seconds later that it does not accept
	// one.
	carriedOut = 15 * time.Second
)

// Resizing is an event: the runtime asks about a resize of a pod, either of the whole pod or of one
// container. After the answer the kubelet may write the pod's quota. Managed is the answer.
type Resizing struct {
	Connection uint64
	UID        string
	Whole      bool
}

func (e Resizing) on(s *step) {
	switch {
	case s.renewing(e.Connection):
		s.answer(Managed{Err: errRenewing})
		return
	case !s.asked(e.Connection):
		s.answer(Managed{Err: ErrGone})
		return
	}
	if s.liftDue.IsZero() {
		s.liftDue = s.now.Add(relift)
	}
	s.heardOf(e.UID)
	s.pods.edit(s, e.UID).lifting = s.now.Add(relifting)
	s.link.forwards = s.link.forwards || e.Whole
	s.answer(Managed{Managed: s.managed()})
}

// lift writes again the quotas of the pods that the kubelet resizes.
func (s *step) lift() {
	s.liftDue = time.Time{}
	var due []string
	for uid, p := range s.pods.all() {
		if p.lifting.IsZero() {
			continue
		}
		if due = append(due, uid); s.now.After(p.lifting) {
			s.pods.edit(s, uid).lifting = time.Time{}
		} else {
			s.liftDue = s.now.Add(relift)
		}
	}
	if s.managed() {
		s.keepQuotas("lift", due)
	}
}

// The errors of a resize about which nothing can be decided now. The kubelet tries again.
var (
	errNotListed    = errors.New("the kubelet's list does not have a usable specification of it")
	errOtherRequest = errors.New("the kubelet applies another request than the one in its list, which it has not accepted")
)

// Resize is an event: the kubelet is about to change a pod. The first message that has a part of
// the pod's request decides the whole request. ResizeDecided is the answer, after these jobs:
//
//	ListLatest   gets the request that the kubelet lists
//	ResizePod    makes the decision durable
type Resize struct {
	Box *Sandbox
	// Container is the name of the container that the message is about. If empty, the message is
	// about the whole pod.
	Container string
	Shown     Amounts
	// Until is the latest time at which the jobs end.
	Until time.Time
}

// ResizeDecided has the reason, for people, why the kubelet must not change the pod. If Err is nil,
// the kubelet goes on. Due is true if the kubelet must have asked about the whole pod before.
type ResizeDecided struct {
	Due bool
	Err error
}

// resizing is a resize that is under way. Each of its jobs has it.
type resizing struct {
	Resize

	request uint64
	due     bool
}

func (e Resize) on(s *step) {
	r := resizing{Resize: e, request: s.event.Request}
	g := s.grant(e.Box.Pod)
	if g == nil || g.Pod.Estimated && !g.OwnsAnything() {
		s.resized(r, nil) // There is nothing to resize. Its request is decided like that of a new pod.
		return
	}
	if isExact(g) && e.Shown == amountsOf(&g.Pod, e.Container).shownIn(e.Shown) {
		s.resized(r, nil) // The pod has that already.
		return
	}
	half := s.now.Add(e.Until.Sub(s.now) / 2) // The rest is for the disk.
	s.jobUntil(r.name(), half, ListLatest{UID: e.Box.Pod, Traces: s.traces(), of: r})
}

func (r resizing) name() string { return fmt.Sprint("resize ", r.request) }

// resized ends a resize.
func (s *step) resized(r resizing, err error) { s.do(Answer{r.request, ResizeDecided{r.due, err}}) }

// isExact reports whether the numbers of a pod's cgroup follow exactly from its request.
func isExact(g *node.Grant) bool { return g.Pod.QoS == request.Guaranteed && !g.Pod.Estimated }

// LatestFound is the outcome of ListLatest: what the source of pods lists now.
type LatestFound struct {
	Of      ListLatest
	Listing Listing
	Latest  Latest
	// Known is true if the pod is listed. Err is the reason why there is no list.
	Known bool
	Err   error
}

func (e LatestFound) on(s *step) {
	r, wanted := e.Of.of, e.Latest.Pod
	g := s.grant(r.Box.Pod)
	if g == nil {
		s.resized(r, nil)
		return
	}
	again := func(why error) {
		if !g.OwnsAnything() {
			s.resized(r, nil) // No CPU depends on it. The loop follows the list.
			return
		}
		s.resized(r, fmt.Errorf("paddock: pod %s cannot be resized now: %w; the kubelet tries again", r.Box.Who, why))
	}
	switch {
	case e.Err != nil:
		again(e.Err)
		return
	case !e.Known || len(wanted.Containers) == 0:
		again(errNotListed)
		return
	}
	has, wants := amountsOf(&g.Pod, r.Container), amountsOf(&wanted, r.Container)
	if isExact(g) && !wanted.Equal(g.Pod) {
		switch about := r.Shown.about(has, wants); {
		case about == theOld:
			s.resized(r, nil) // This message changes nothing, or another container.
			return
		case about == neither, about == aPart && e.Latest.Pending != "":
			again(fmt.Errorf("%w (%s)", errOtherRequest, pendingText(e.Latest.Pending)))
			return
		}
		r.due = r.Container != "" && r.Shown.grows(has, wants, amountsOfPod(&g.Pod), amountsOfPod(&wanted))
	} else if e.Latest.Pending != "" {
		s.resized(r, nil)
		return
	}
	// A pod that is gone may have what is missing. If such a pod was released, a request that was
	// rejected before is decided again.
	released := len(e.Listing.Traces) > 0 && s.release(e.Listing, nil)
	if before := s.repeats(s.pod(wanted.UID).vetoed, wanted, s.now, &s.engine); before != nil && !released {
		s.resized(r, before)
		return
	}
	s.jobUntil(r.name(), r.Until, ResizePod{Pod: wanted, of: r, version: s.engine.Version})
}

func pendingText(pending string) string {
	if pending == "" {
		return "its list is newer than the request that it applies"
	}
	return "PodResizePending: " + pending
}

// PodResized is the outcome of ResizePod.
type PodResized struct {
	Of   ResizePod
	Plan *node.Plan
	Err  error
}

func (e PodResized) on(s *step) {
	s.resized(e.Of.of, s.noteResize(e.Of.Pod, e.Of.version, e.Plan, e.Err, true))
}

// noteResize notes the result of a resize. It returns the error if the pod is not resized. asked is
// true if the kubelet changes the pod's containers next.
func (s *step) noteResize(pod request.Pod, version uint64, plan *node.Plan, err error, asked bool) error {
	if err != nil {
		return fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", pod.ID(), err)
	}
	p := s.pods.edit(s, pod.UID)
	if p.vetoed = (Rejection{}); plan.Rejection != nil {
		err = fmt.Errorf("%w %s: %w%s", ErrResizeRejected, pod.ID(), plan.Rejection, account(plan.Rejection, mostAccount))
		p.vetoed = Rejection{Pod: pod, Version: version, At: s.now, Err: err}
	} else if p.sizing = s.now; asked {
		s.await(pod.UID)
	}
	s.publish()
	s.shortly()
	return err
}

// await leaves the containers of a pod that have CPUs of their own to the kubelet for a while. The
// kubelet need not change the other containers: their CPUs can be CPUs that the whole pod got or
// gave back.
func (s *step) await(uid string) {
	g, known := s.engine.State.Grant(uid)
	if !known {
		return
	}
	for id, c := range s.containers.all() {
		if c.pod != uid {
			continue
		}
		if _, i := g.Pod.Container(c.name); i >= 0 && g.Isolation(i) == node.ContainerIsolation {
			s.containers.edit(s, id).awaited = s.now.Add(awaiting)
		}
	}
}

// unasked is the request with which a pod is listed, if its grant has another one, and the time
// since when.
type unasked struct {
	pod   request.Pod
	since time.Time
}

// follow resizes the pods whose request the kubelet has carried out without asking. Either the
// runtime does not forward its calls, or the agent was away, or the containers of a pod were
// created again and now have a request that was rejected before.
func (s *step) follow() {
	there := map[string]bool{}
	uids := make([]string, 0, len(s.engine.State.Grants()))
	for _, g := range s.engine.State.Grants() {
		there[g.Pod.UID] = true
		uids = append(uids, g.Pod.UID)
	}
	for uid, p := range s.pods.all() {
		if gone := !there[uid] && (!p.behind.since.IsZero() || p.vetoed.Err != nil); gone || !p.sizing.IsZero() && s.now.Sub(p.sizing) > relifting {
			p := s.pods.edit(s, uid)
			if gone {
				p.behind, p.vetoed = unasked{}, Rejection{}
			}
			if s.now.Sub(p.sizing) > relifting {
				p.sizing = time.Time{}
			}
		}
	}
	if len(uids) > 0 {
		s.job("latest", LatestPods{uids})
	}
}

// Latest is a pod of the last list. Pending is the reason why the kubelet does not carry out the
// pod's request now. If empty, it does.
type Latest struct {
	Pod     request.Pod
	Pending string
}

// LatestListed is the outcome of LatestPods: the pods that were listed, by UID.
type LatestListed struct{ Pods map[string]Latest }

func (e LatestListed) on(s *step) {
	var due []request.Pod
	for _, g := range s.engine.State.Grants() {
		uid := g.Pod.UID
		now, known := e.Pods[uid]
		late := s.pod(uid).behind
		same := known && now.Pending == "" && now.Pod.Equal(g.Pod)
		if same {
			s.withdraw(uid)
		}
		if same || !known || now.Pending != "" || len(now.Pod.Containers) == 0 || g.Pod.Estimated {
			if !late.since.IsZero() {
				s.pods.edit(s, uid).behind = unasked{}
			}
			continue
		}
		switch {
		case late.since.IsZero() || !late.pod.Equal(now.Pod):
			s.pods.edit(s, uid).behind = unasked{now.Pod, s.now}
			s.within(carriedOut)
		case s.now.Sub(late.since) < carriedOut:
			s.within(carriedOut - s.now.Sub(late.since))
		case s.repeats(s.pod(uid).vetoed, now.Pod, s.now, &s.engine) == nil:
			due = append(due, now.Pod)
		}
	}
	if len(due) == 0 {
		return
	}
	s.jobOfRound("follow", Follow{Pods: due, version: s.engine.Version, connected: s.link.since})
}

// withdraw forgets the rejection of a resize that the pod no longer asks for. A list can be older
// than the resize, so it counts only carriedOut after the rejection.
func (s *step) withdraw(uid string) {
	if v := s.pod(uid).vetoed; v.Err != nil && s.now.Sub(v.At) >= carriedOut {
		s.pods.edit(s, uid).vetoed = Rejection{}
		s.publish()
	}
}

// Followed is the outcome of Follow: for each pod a plan, or the reason why there is none.
type Followed struct {
	Of    Follow
	Plans []*node.Plan
	Errs  []error
}

func (e Followed) on(s *step) {
	owns := false
	for i, pod := range e.Of.Pods {
		if g := s.grant(pod.UID); g != nil && g.OwnsAnything() {
			owns = true
		}
		before := s.pod(pod.UID).vetoed.Err
		err := s.noteResize(pod, e.Of.version, e.Plans[i], e.Errs[i], false)
		if err != nil && (before == nil || before.Error() != err.Error()) {
			s.alert("the kubelet lists a pod with another request: the pod keeps what it has", "pod", pod.ID(), "uid", pod.UID, "error", err)
		}
	}
	if owns && s.link.synchronised() && s.link.since.Equal(e.Of.connected) {
		s.reportNoVeto("pods were resized without an UpdatePodSandbox request")
	}
}

// reportNoVeto notes, and logs once, that the runtime does not ask before a pod is resized.
func (s *step) reportNoVeto(why string) {
	if s.link.noVeto != nil || s.link.forwards {
		return
	}
	s.link.noVeto = fmt.Errorf("the runtime does not ask before a pod is resized (%s): the pod's cgroup changes before Paddock decides, and Paddock cannot reject a resize of the pod alone, "+
		"but finds it later in the kubelet's list; use a runtime that has NRI's UpdatePodSandbox, such as containerd 2.4", why)
	s.warn("Paddock cannot decide about resizes before the kubelet carries them out", "why", s.link.noVeto)
	s.do(CountVetoes{false})
	s.publish()
}

// ResizeContainer is an event: the kubelet changes the resources of a container. Paddock sets the
// CPUs, memory nodes and quota in the same write. Due is true if the kubelet must have asked about
// the whole pod before. Placed is the answer.
type ResizeContainer struct {
	Connection uint64
	Box        *Sandbox
	Of         Container
	Due        bool
}

func (e ResizeContainer) on(s *step) { s.answer(s.resizeContainer(e)) }

func (s *step) resizeContainer(e ResizeContainer) Placed {
	if !s.asked(e.Connection) {
		return Placed{Err: ErrGone}
	}
	s.soon()
	s.learn(e.Box, e.Of)
	if s.containers.get(e.Of.ID) == nil {
		return Placed{} // It has ended.
	}
	known := s.containers.edit(s, e.Of.ID)
	known.started() // A kubelet resizes what runs.
	known.awaited = time.Time{}
	if e.Due {
		s.reportNoVeto("a container was changed without an UpdatePodSandbox request for its pod")
	}
	a := s.updates(converge.Occasion{By: converge.Merged, Resizes: e.Of.ID})
	by := s.begin("", false)
	s.reply(by, a)
	return Placed{Updates: a.Updates, by: by}
}
