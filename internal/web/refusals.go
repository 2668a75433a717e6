package web

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/view"
)

const (
	// maxRefusals is how many refusals are kept; the same again, of the same pod, is counted.
	maxRefusals = 100
	// maxRefusalBytes is how much they may need together. The newest is always kept.
	maxRefusalBytes = 16 << 20
)

// refusal is a pod that was not admitted: all that is needed to show why, and nothing of the other
// pods but their names in the account. A stored one never changes.
type refusal struct {
	pod        request.Pod
	generation uint64        // of the state that was asked
	refusal    *node.Refusal // the verdict and the account; nil where err is set
	err        error         // set where the pod fitted and the state could not be written
	// base is the state that was asked, without its grants: planning on it gives the explanation. It is
	// nil where that was before a restart.
	base *node.State
	// first and last are when it was refused for the same reason, times how often.
	first, last time.Time
	times       int
	number      int // of all refusals, ascending
	bytes       int // about what it needs
}

// refusals are the last ones, the newest at the end.
type refusals struct {
	list  []refusal
	count int
}

// add keeps a refusal.
func (r *refusals) add(d engine.Decision, at time.Time) {
	n := refusal{
		pod: d.Plan.Pod, generation: d.Plan.Base, refusal: d.Plan.Refusal, err: d.Err, base: d.Base.Bare(),
		first: at, last: at, times: 1, number: r.count + 1,
	}
	if i := slices.IndexFunc(r.list, n.same); i >= 0 {
		n.first, n.times = r.list[i].first, r.list[i].times+1
	}
	r.keep(n)
}

// keep takes the newest refusal, which counts those that it is the same as, in their place.
func (r *refusals) keep(n refusal) {
	r.count = n.number
	n.bytes = podBytes(n.pod) + accountBytes(n.refusal)
	list := append(slices.DeleteFunc(slices.Clone(r.list), n.same), n)
	bytes, keep := 0, 0
	for keep < min(len(list), maxRefusals) {
		if bytes += list[len(list)-1-keep].bytes; bytes > maxRefusalBytes && keep > 0 {
			break
		}
		keep++
	}
	r.list = slices.Clone(list[len(list)-keep:])
}

// podBytes is about how much memory a pod needs.
func podBytes(pod request.Pod) int {
	bytes := 1 << 10
	for i := range pod.Containers {
		c := &pod.Containers[i]
		bytes += 320 + 32*(len(c.Memory)+len(c.Devices)+len(c.MemoryRequest)+len(c.MemoryLimit)+len(c.HugePages)) + len(c.Name)
	}
	return bytes
}

func accountBytes(r *node.Refusal) int {
	bytes := 0
	if r != nil {
		for _, n := range r.Nodes {
			bytes += 64 + 96*len(n.Holders)
		}
	}
	return bytes
}

// same tells whether the pod was refused for the same reason.
func (n refusal) same(m refusal) bool {
	if n.pod.UID != m.pod.UID || (n.err == nil) != (m.err == nil) {
		return false
	}
	if n.refusal == nil || m.refusal == nil {
		return n.refusal == nil && m.refusal == nil
	}
	return n.refusal.Error() == m.refusal.Error()
}

// plan makes the decision again, with the account as it was.
func (n refusal) plan() *node.Plan {
	p := n.base.Plan(n.pod)
	p.Refusal = n.refusal
	return p
}

// explanation is how it was decided, or of a decision before a restart the account.
func (n refusal) explanation() view.Explanation {
	if !n.before() {
		return view.ExplanationOf(n.base, n.plan(), nil)
	}
	e := view.AccountOf(n.pod, n.refusal)
	e.Standing = []string{decidedBefore}
	return e
}

// Refused is a refusal for readers.
type Refused struct {
	Number int       `json:"number"`
	Pod    string    `json:"pod"`
	UID    string    `json:"uid"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Times  int       `json:"times"`
	// Error says why a pod that fits was not admitted: the state could not be written.
	Error string `json:"error,omitempty"`
	// Refusal is the reason with the account, Explanation the way of the decision, in text.
	Refusal     *view.PlanRefusal `json:"refusal,omitempty"`
	Explanation string            `json:"explanation,omitempty"`
}

// document makes the answer.
func (n refusal) document() Refused {
	out := Refused{Number: n.number, Pod: n.pod.ID(), UID: n.pod.UID, First: n.first, Last: n.last, Times: n.times}
	if n.err != nil {
		out.Error = n.err.Error()
	}
	if n.refusal != nil {
		e := n.explanation()
		out.Refusal, out.Explanation = e.Answer.Refusal, e.Text(view.Style{}, false)
	}
	return out
}
