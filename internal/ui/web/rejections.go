package web

import (
	"errors"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/ui/view"
)

const (
	// maxRejections is how many rejections are kept. A repeated rejection of the same pod is only
	// counted.
	maxRejections = 100
	// maxRejectionBytes is the approximate limit of their memory. The newest is always kept.
	maxRejectionBytes = 16 << 20
)

// notAdmitted is a rejected pod, with everything that an explanation needs. Of other pods, it keeps
// only the names, in the account. A stored rejection never changes.
type notAdmitted struct {
	pod       request.Pod
	revision  uint64               // of the state on which the decision is based
	rejection *rejection.Rejection // the reason and the account; nil if err is set
	err       error                // set if the pod fitted, and the state could not be written or it is an engine.OutsideError
	// base is the state on which the decision is based, without its grants. Planning on it gives
	// the explanation. It is nil for a decision before a restart.
	base *node.State
	// first and last are the times of the first and last rejection for the same reason. times is
	// the number of these rejections.
	first, last time.Time
	times       int
	number      int // ascending over all rejections
	bytes       int // the approximate memory that it needs
}

// rejections has the last rejections, with the newest at the end.
type rejections struct {
	list  []notAdmitted
	count int
}

// add keeps a rejection.
func (r *rejections) add(d engine.Decision, at time.Time) {
	n := notAdmitted{
		pod: d.Plan.Pod, revision: d.Plan.Base, rejection: d.Plan.Rejection, err: d.Err, base: d.Base.Bare(),
		first: at, last: at, times: 1, number: r.count + 1,
	}
	n.pod.ResourceClaims = nil // Explanations do not need them.
	if i := slices.IndexFunc(r.list, n.same); i >= 0 {
		n.first, n.times = r.list[i].first, r.list[i].times+1
	}
	r.keep(n)
}

// keep adds the newest rejection. It replaces earlier ones that are the same.
func (r *rejections) keep(n notAdmitted) {
	r.count = n.number
	n.bytes = podBytes(n.pod)
	if n.rejection != nil {
		for _, account := range n.rejection.Nodes {
			n.bytes += 64 + 96*len(account.Holders)
		}
		if m := n.rejection.Misfit; m != nil {
			n.bytes += givenBytes*len(m.Devices) + 64*len(m.Short)
		}
	}
	list := append(slices.DeleteFunc(slices.Clone(r.list), n.same), n)
	bytes, keep := 0, 0
	for keep < min(len(list), maxRejections) {
		if bytes += list[len(list)-1-keep].bytes; bytes > maxRejectionBytes && keep > 0 {
			break
		}
		keep++
	}
	r.list = slices.Clone(list[len(list)-keep:])
}

// givenBytes is the approximate memory of a given device: five strings, their text and a mask.
const givenBytes = 160

// podBytes returns the approximate memory that a pod needs.
func podBytes(pod request.Pod) int {
	bytes := 1<<10 + len(pod.DevicesUnknown)
	for i := range pod.Containers {
		c := &pod.Containers[i]
		bytes += 320 + 32*(len(c.Memory)+len(c.Devices)+len(c.MemoryRequest)+len(c.MemoryLimit)+len(c.HugePages)+len(c.Claims)) + len(c.Name) + givenBytes*len(c.Given)
	}
	for i := range pod.Stock {
		bytes += 64 + 16*len(pod.Stock[i].Places)
	}
	return bytes
}

// same reports whether the pod was rejected for the same reason.
func (n notAdmitted) same(m notAdmitted) bool {
	if n.pod.UID != m.pod.UID || (n.err == nil) != (m.err == nil) {
		return false
	}
	if n.rejection == nil || m.rejection == nil {
		return n.rejection == nil && m.rejection == nil && n.outside() == m.outside()
	}
	return n.rejection.Error() == m.rejection.Error()
}

// outside reports whether something other than the managers rejected the pod.
func (n notAdmitted) outside() bool {
	_, is := errors.AsType[*engine.OutsideError](n.err)
	return is
}

// plan makes the decision again, with the original account.
func (n notAdmitted) plan() *node.Plan {
	p := n.base.Plan(n.pod)
	p.Rejection = n.rejection
	return p
}

// explanation explains the decision. If the decision was made before a restart, it has only the
// account.
func (n notAdmitted) explanation() view.Explanation {
	if !n.before() {
		return view.ExplanationOf(n.base, n.plan(), nil)
	}
	e := view.AccountOf(n.pod, n.rejection)
	e.Standing = []string{decidedBefore}
	return e
}

// Rejected is a rejection for readers.
type Rejected struct {
	Number int       `json:"number"`
	Pod    string    `json:"pod"`
	UID    string    `json:"uid"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Times  int       `json:"times"`
	// Revision is the revision of the state on which the last decision was based.
	Revision uint64 `json:"revision"`
	// Error is the reason why a pod that fits was not admitted: the state could not be written.
	Error string `json:"error,omitempty"`
	// Rejection is the reason with the account. Explanation has the steps of the decision as text.
	Rejection   *view.PlanRejection `json:"rejection,omitempty"`
	Explanation string              `json:"explanation,omitempty"`
}

// document returns the rejection for readers.
func (n notAdmitted) document() Rejected {
	out := Rejected{Number: n.number, Pod: n.pod.ID(), UID: n.pod.UID, First: n.first, Last: n.last, Times: n.times, Revision: n.revision}
	if outside, is := errors.AsType[*engine.OutsideError](n.err); is {
		out.Rejection = &view.PlanRejection{Reason: outside.Reason, Resource: outside.Resource, Message: outside.Message}
	} else if n.err != nil {
		out.Error = n.err.Error()
	}
	if n.rejection != nil {
		e := n.explanation()
		out.Rejection, out.Explanation = e.Answer.Rejection, e.Text(terminal.Style{}, false)
	}
	return out
}
