package control

import (
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Candidate is a pod that asks for admission.
type Candidate struct {
	Pod request.Pod
	// Handed is the text of the grant that was handed over with the pod. If empty, there is none.
	Handed string
}

// Admit is an event: the runtime waits until a pod has a durable grant, or is rejected. Admitted is
// the answer.
type Admit struct {
	Connection uint64
	Box        *Sandbox
	// Shown is what the runtime shows of the sandbox, for an estimate of the pod's request. The
	// loop only passes it on to Find.
	Shown any
	// Until is the latest time at which the jobs of the admission end.
	Until time.Time
}

// Admitted is a durable grant, or the reason for people why there is none. Err wraps ErrRejected if
// the pod was rejected, and ErrMoving while running pods are moved for it.
type Admitted struct {
	Grant *node.Grant
	Err   error
}

// Admission is an admission that is under way. It is a chain of jobs. Each job has the Admission,
// and so has its outcome.
//
//	Find       gets the request of the pod
//	Preview    plans the pod
//	ListGone   only if a pod that is gone may have what is missing; then Preview again
//	FindRoom   only if the pod fits better after moves of running pods; then BeginSet
//	Decide     makes the decision durable
type Admission struct {
	Admit

	// Pod is the request of the pod. It is set from Found on.
	Pod request.Pod
	// request is the number of the event that Admitted answers.
	request uint64
	// unlisted and doubt are Found.Unlisted and Found.Doubt.
	unlisted, doubt error
	// lists is how often the source of pods was asked which pods are gone. answered are the traces
	// for which it answered last. It is nil before the first answer.
	lists    int
	answered map[string]Trace
}

func (e Admit) on(s *step) {
	a := Admission{Admit: e, request: s.event.Request}
	if g := s.grant(e.Box.Pod); g != nil { // If the last write failed, this one makes the grant durable.
		a.Pod = g.Pod
		s.decide(a, nil)
		return
	}
	s.next(a, Find{a})
}

// next begins the next job of an admission.
func (s *step) next(a Admission, job Action) {
	s.jobUntil(fmt.Sprint("admit ", a.request), a.Until, job)
}

// admitted ends an admission.
func (s *step) admitted(a Admission, g *node.Grant, err error) {
	s.do(Answer{a.request, Admitted{g, err}})
}

// isOver reports whether the connection of an admission has ended. If so, it ends the admission.
func (s *step) isOver(a Admission) bool {
	over := a.Connection != s.link.id
	if over {
		s.admitted(a, nil, ErrGone)
	}
	return over
}

// Found is the outcome of Find: the request of a pod. Unlisted is the reason why the source of pods
// does not have the request, which is then an estimate. If nil, the source has it. Doubt is the
// reason why the numbers of an estimate are not credible. The pod then asks for no CPUs and memory
// of its own.
type Found struct {
	Of                   Admission
	Pod                  request.Pod
	Unlisted, Doubt, Err error
}

func (e Found) on(s *step) {
	a := e.Of
	if e.Err != nil {
		s.admitted(a, nil, fmt.Errorf("paddock: pod %s (uid %s) is not known yet: %w; the kubelet tries again", a.Box.Who, a.Box.Pod, e.Err))
		return
	}
	if s.isOver(a) {
		return
	}
	if err := s.repeats(s.pod(a.Box.Pod).rejected, e.Pod, s.now, &s.engine); err != nil {
		s.admitted(a, nil, err)
		return
	}
	a.Pod, a.unlisted, a.doubt = e.Pod, e.Unlisted, e.Doubt
	s.next(a, Preview{a})
}

// Previewed is the outcome of Preview: the plan for a pod in the state Base.
type Previewed struct {
	Of   Admission
	Plan *node.Plan
	Base *node.State
	// Applied is true if the grant that was handed over with the pod would be applied. Contested is
	// true if another pod has something of that grant. HandsOver is true if any pod of this node
	// comes with a grant.
	Applied, Contested, HandsOver bool
	// By is the engine's own preview. The loop only passes it on to Decide.
	By any
}

func (e Previewed) on(s *step) {
	a := e.Of
	if s.isOver(a) {
		return
	}
	// A pod that is gone may have what is missing, or something of the grant that was handed over.
	// And a pod that the node itself plans must not get what was promised to others since the last
	// list.
	rejected, first := e.Plan.Rejection != nil, a.lists == 0
	switch traces := s.unanswered(a); {
	case len(traces) > 0 && rejected && a.lists == maxLists:
		s.admitted(a, nil, fmt.Errorf("paddock: pod %s does not fit, and pods that may have the rest ended each time that it was asked which are gone; the kubelet tries again", a.Box.Who))
		return
	case len(traces) > 0 && (rejected || first && e.Contested):
		s.listFor(a, rejected, traces)
		return
	case first && !rejected && !e.Contested && e.HandsOver && !e.Applied && e.Plan.Grant.OwnsAnything():
		s.listFor(a, false, nil)
		return
	}
	if !s.makesRoom(a, e) {
		s.decide(a, e.By)
	}
}

// maxLists is how often an admission asks which pods are gone. It asks again if a pod has ended
// since it was asked.
const maxLists = 4

// listFor asks the source of pods for an admission.
func (s *step) listFor(a Admission, must bool, traces map[string]Trace) {
	a.lists++
	s.next(a, ListGone{Of: goneFor{a, must}, Traces: traces})
}

// unanswered returns the traces of the idle grants if the source of pods has not answered yet for
// one of them. After its first answer, only pods without a sandbox count: those with one are being
// created, and new ones come all the time on a busy node.
func (s *step) unanswered(a Admission) map[string]Trace {
	traces := s.traces()
	if a.answered == nil {
		return traces
	}
	for uid, trace := range traces {
		if a.answered[uid] != trace && !trace.Sandbox {
			return traces
		}
	}
	return nil
}

// goneFor is an admission that waits for a list of the pods. must is true if its pod would be
// rejected. Without the list it is not known whether the rejection would be right.
type goneFor struct {
	of   Admission
	must bool
}

func (g goneFor) listed(s *step, listing Listing, err error) {
	a := g.of
	if err != nil && g.must {
		s.admitted(a, nil, fmt.Errorf("paddock: pod %s does not fit, and it is unknown whether the pods that have the rest are gone: %w; the kubelet tries again", a.Box.Who, err))
		return
	}
	if len(listing.Traces) > 0 {
		s.release(listing, err)
	}
	if err == nil && listing.Traces != nil {
		a.answered = listing.Traces
	}
	s.next(a, Preview{a})
}

// makesRoom looks for moves of running pods if the pod would be rejected, or would not be aligned
// as the policy prefers. If it returns false, the caller decides about the pod without moves.
func (s *step) makesRoom(a Admission, e Previewed) bool {
	uid := a.Box.Pod
	if a.Pod.Estimated || !s.movesForPods() || !moves.Wanted(e.Plan) {
		return false
	}
	switch r := s.room; {
	case r != nil && r.pod != nil && r.pod.UID == uid:
		s.movesFor(a, r.left)
		return true
	case s.busy() || s.link.id == 0 || !s.link.mayUpdate || s.now.Sub(s.pod(uid).failed) < without:
		return false
	case s.event.Promised.UID != "" && s.event.Promised.UID != uid:
		return false // One promise at a time.
	}
	s.next(a, FindRoom{Of: a, Base: e.Base, Stay: s.staying(), Cgroups: s.cgroups(), by: e.By})
	return true
}

// RoomFound is the outcome of FindRoom. A nil Set means that there are no such moves.
type RoomFound struct {
	Of  FindRoom
	Set *moves.Set
}

func (e RoomFound) on(s *step) {
	a := e.Of.Of
	switch {
	case s.isOver(a):
	case e.Set == nil:
		s.decide(a, e.Of.by)
	case s.busy():
		s.noRoom(a, e.Of.by, errBusy)
	default:
		s.beginSet(BeginSet{Left: e.Set.Moves, Pod: &a.Pod, Place: e.Set.Plan.Grant, of: a, by: e.Of.by}, a.Until)
	}
}

// movesFor ends an admission while running pods are moved for it.
func (s *step) movesFor(a Admission, left []moves.Move) {
	s.admitted(a, nil, fmt.Errorf("paddock: pod %s: %w", a.Box.Who, underWay(left)))
}

// noRoom decides about a pod without the moves that were found for it, because these did not begin.
func (s *step) noRoom(a Admission, by any, why error) {
	s.warn("moves that would make room for a pod did not begin", "pod", a.Pod.ID(), "uid", a.Pod.UID, "error", why)
	s.decide(a, by)
}

// decide begins the last job of an admission.
func (s *step) decide(a Admission, by any) {
	s.next(a, Decide{Of: a, By: by, version: s.engine.Version})
}

// Decided is the outcome of Decide.
type Decided struct {
	Of   Decide
	Plan *node.Plan
	Err  error
}

func (e Decided) on(s *step) {
	a, uid := e.Of.Of, e.Of.Of.Box.Pod
	switch {
	case e.Err != nil:
		s.admitted(a, nil, fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", a.Box.Who, e.Err))
		return
	case e.Plan.Rejection != nil:
		err := rejected(a.Pod, e.Plan.Rejection)
		if e.Of.By != nil { // Otherwise its grant was released just now.
			s.reject(a.Pod, e.Of.version, err)
		}
		s.admitted(a, nil, err)
		return
	}
	if s.movesForPods() {
		s.do(DropPlace{uid})
	}
	if a.unlisted != nil {
		s.pods.edit(s, uid).reported = false
		args := []any{"pod", a.Pod.ID(), "uid", uid, "why", a.unlisted, "qos", a.Pod.QoS.String()}
		if a.doubt != nil {
			s.warn("the pod's request cannot be estimated reliably from cgroup numbers: it gets no assignment and runs on the node shared pool", append(args, "doubt", a.doubt)...)
		} else {
			s.warn("the pod's request is estimated from cgroup numbers", append(args, "cpu_milli", a.Pod.BudgetCPUMilli, "memory", a.Pod.BudgetMemory.String(), "pool", e.Plan.Grant.Pool.String())...)
		}
	}
	s.admitted(a, e.Plan.Grant, nil)
}

// reject notes the rejection of a pod. version is the version of the state in which it was decided.
func (s *step) reject(pod request.Pod, version uint64, err error) {
	s.pods.edit(s, pod.UID).rejected = Rejection{Pod: pod, Version: version, At: s.now, Err: err}
}

// movesForPods reports whether running pods are moved so that others fit.
func (s *step) movesForPods() bool {
	return s.config.MakesRoom && s.engine.State.Policy().Moves.Pods > 0
}
