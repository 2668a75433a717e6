package web

import (
	"errors"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/journal"
)

// Journal is what is to be known of the decisions after a restart. The edition grows with every
// change of it.
func (w *Web) Journal() (j journal.Journal, edition uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, a := range w.admitted {
		j.Admissions = append(j.Admissions, journal.Admission{UID: uid, At: a.at, Revision: a.revision})
	}
	for _, n := range w.refusals.list {
		j.Rejections = append(j.Rejections, n.entry())
	}
	return j, w.edition
}

// Edited has an element when the journal was changed since somebody took one.
func (w *Web) Edited() <-chan struct{} { return w.edited }

// edit notes a change of the journal. It is called with mu held.
func (w *Web) edit() {
	w.edition++
	select {
	case w.edited <- struct{}{}:
	default:
	}
}

// Restore adds what an agent before this one knew: its rejections, and the admissions of the pods that s has
// by the same grant. It is called before anything is decided. How these decisions were made is not
// known, since the machine and the policy may be different now.
func (w *Web) Restore(j journal.Journal, s *node.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range j.Admissions {
		if g, there := s.Grant(a.UID); there && g.Sequence == a.Revision {
			w.admitted[a.UID] = admission{at: a.At, revision: a.Revision}
		}
	}
	for _, r := range j.Rejections {
		w.refusals.keep(restored(r))
	}
}

// entry is a refusal as the journal has it.
func (n refusal) entry() journal.Rejection {
	r := journal.Rejection{
		Number: n.number, Pod: n.pod, Revision: n.generation, Refusal: n.refusal, First: n.first, Last: n.last, Times: n.times,
	}
	if n.err != nil {
		r.Error = n.err.Error()
	}
	return r
}

// restored is a refusal of the journal. It has no base.
func restored(r journal.Rejection) refusal {
	n := refusal{
		pod: r.Pod, generation: r.Revision, refusal: r.Refusal, first: r.First, last: r.Last, times: r.Times, number: r.Number,
	}
	if r.Refusal == nil {
		n.err = errors.New(r.Error)
	}
	return n
}

// before tells that an agent before this one made the decision: the way to it is not known.
func (n refusal) before() bool { return n.base == nil }

// decidedBefore is what there is to say about it.
const decidedBefore = "this was decided before the agent was restarted: the account is the one of that time, the steps of the decision are not kept"

// admittedAt is when and how a pod was admitted, as far as that is known.
type admittedAt struct {
	// base is the state that was asked; where that is not known, the state without the pod.
	base *node.State
	// since is nil where nothing is known of the admission, anew true where the decision is not known.
	since *time.Time
	anew  bool
}
