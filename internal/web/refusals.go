package web

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/view"
)

// maxRefusals is how many refusals are kept; the same again, of the same pod, is counted.
const maxRefusals = 100

// refusal is a pod that was not admitted. A stored one never changes.
type refusal struct {
	plan *node.Plan
	base *node.State // the state that was asked
	err  error       // set where the plan was good and could not be written
	// first and last are when it was refused for the same reason, times how often.
	first, last time.Time
	times       int
	number      int // of all refusals, ascending
}

// refusals are the last ones, the newest at the end.
type refusals struct {
	list  []refusal
	count int
}

// add keeps a refusal.
func (r *refusals) add(d engine.Decision, at time.Time) {
	r.count++
	n := refusal{plan: d.Plan, base: d.Base, err: d.Err, first: at, last: at, times: 1, number: r.count}
	list := slices.Clone(r.list)
	if i := slices.IndexFunc(list, n.same); i >= 0 {
		n.first, n.times = list[i].first, list[i].times+1
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == maxRefusals {
		list = list[1:]
	}
	list = append(list, n)
	r.list = list
}

// same tells whether the pod was refused for the same reason.
func (n refusal) same(m refusal) bool {
	if n.plan.Pod.UID != m.plan.Pod.UID || (n.err == nil) != (m.err == nil) {
		return false
	}
	if n.plan.Refusal == nil || m.plan.Refusal == nil {
		return n.plan.Refusal == nil && m.plan.Refusal == nil
	}
	return n.plan.Refusal.Error() == m.plan.Refusal.Error()
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

// document makes the answer. It plans nothing: the plan is there.
func (n refusal) document() Refused {
	out := Refused{Number: n.number, Pod: n.plan.Pod.ID(), UID: n.plan.Pod.UID, First: n.first, Last: n.last, Times: n.times}
	if n.err != nil {
		out.Error = n.err.Error()
	}
	if n.plan.Refusal != nil {
		e := view.ExplanationOf(n.base, n.plan, nil)
		out.Refusal, out.Explanation = e.Answer.Refusal, e.Text(view.Style{}, false)
	}
	return out
}
