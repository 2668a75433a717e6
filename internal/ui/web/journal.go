package web

import (
	"errors"
	"time"

	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Journal returns the decisions that must survive a restart. The edition grows with each change.
func (w *Web) Journal() (j journal.Journal, edition uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, a := range w.admitted {
		j.Admissions = append(j.Admissions, journal.Admission{UID: uid, At: a.at, Revision: a.revision})
	}
	for _, n := range w.rejections.list {
		r := journal.Rejection{
			Number: n.number, Pod: n.pod, Revision: n.revision, Rejection: n.rejection, First: n.first, Last: n.last, Times: n.times,
		}
		if n.err != nil {
			r.Error = n.err.Error()
		}
		j.Rejections = append(j.Rejections, r)
	}
	return j, w.edition
}

// Edited returns a channel that has an element if the journal has changed since the last element
// was received.
func (w *Web) Edited() <-chan struct{} { return w.edited }

// edit notes a change of the journal. The caller has locked mu.
func (w *Web) edit() {
	w.edition++
	select {
	case w.edited <- struct{}{}:
	default:
	}
}

// Restore adds the rejections of an earlier agent, and the admissions of those pods that have the
// same grant in s. The caller must call it before any decision. The steps of these decisions are
// not known, because the machine and the policy may be different now.
func (w *Web) Restore(j journal.Journal, s *node.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range j.Admissions {
		if g, there := s.Grant(a.UID); there && g.Sequence == a.Revision {
			w.admitted[a.UID] = admission{at: a.At, revision: a.Revision}
		}
	}
	for _, r := range j.Rejections {
		n := notAdmitted{ // It has no base.
			pod: r.Pod, revision: r.Revision, rejection: r.Rejection, first: r.First, last: r.Last, times: r.Times, number: r.Number,
		}
		if r.Rejection == nil {
			n.err = errors.New(r.Error)
		}
		w.rejections.keep(n)
	}
}

// before reports whether an earlier agent made the decision, so that its steps are not known.
func (n notAdmitted) before() bool { return n.base == nil }

// decidedBefore describes such a decision.
const decidedBefore = "this was decided before the agent was restarted: the account is the one of that time, the steps of the decision are not kept"

// admittedAt describes the admission of a pod, as far as it is known.
type admittedAt struct {
	// base is the state on which the decision is based. If that is not known, it is the present
	// state without the pod.
	base *node.State
	// since is nil if the time is not known. decided is true if the decision is known.
	since   *time.Time
	decided bool
}
