package nri

import (
	"errors"
	"time"
)

// The stages of the end of a connection, since it was asked for. A runtime that loses the
// connection while it waits for an answer, or that asks in the moment in which it ends, continues
// without Paddock. So a connection ends between an answer and the next request, and what would be
// created in that moment fails before. A node that starts pods all the time has no other
// moments.
const (
	// calm is how long the runtime must not have asked at first: while it works on one container,
	// its requests are closer together.
	calm = 250 * time.Millisecond
	// failing is when requests that create or resize something begin to fail: the kubelet tries
	// again on the next connection. From then on a pause is enough, in which the last answer
	// reaches the runtime.
	failing, pause = 3 * time.Second, 25 * time.Millisecond
	// hasty is when the connection ends as soon as no request is open, and latest when it ends in
	// any case. No request is open for longer than its answer may take.
	hasty, latest = 8 * time.Second, 15 * time.Second
)

// errRenewing is the answer to a request that creates or resizes something shortly before the
// connection ends.
var errRenewing = errors.New("paddock: the connection to the runtime is being renewed; the kubelet tries again")

// hanging is a connection that is to end.
type hanging struct {
	session *session // nil: none
	cause   error
	since   time.Time
	// still reports whether the connection is still to end, and done is called when it ends; nil:
	// it is, and nothing is.
	still func(*loop) bool
	done  func(*loop)
	timer <-chan time.Time
}

// hangUp ends the present connection, within `latest`. The runtime synchronises the next one. It
// does nothing more if the connection is to end already.
func (l *loop) hangUp(h hanging) {
	if l.session == nil {
		return
	}
	if l.hanging.session != l.session {
		h.session, h.since = l.session, l.config.Now()
		l.hanging = h
	}
	l.hangingUp()
}

// hangingUp is an event: it ends the connection that is to end if this is a good moment for it.
func (l *loop) hangingUp() {
	h, now := l.hanging, l.config.Now()
	if h.session == nil || h.session != l.session || h.still != nil && !h.still(l) {
		if h.session != nil {
			h.session.renewing.Store(false)
		}
		l.hanging = hanging{}
		return
	}
	waited, quiet := now.Sub(h.since), now.Sub(latestOf(l.heard, h.session.lastAnswer()))
	h.session.renewing.Store(waited >= failing)
	next := calm
	if waited >= failing {
		next = pause
	}
	busy := h.session.open.Load() > 0 || waited < hasty && quiet < next
	if busy && waited < latest {
		l.hanging.timer = l.config.After(next)
		return
	}
	l.hanging = hanging{}
	if h.done != nil {
		h.done(l)
	}
	h.session.cancel(h.cause)
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lastAnswer is the time of the last answer; zero: there was none.
func (s *session) lastAnswer() time.Time {
	if at := s.answered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// underWay reports whether the runtime creates a sandbox or a container, as far as is known, or has
// not started what it has created. A sandbox without a container counts for as long as a kubelet
// waits for a creation.
func (l *loop) underWay() bool {
	pods := map[string]bool{}
	for _, c := range l.table.containers {
		if c.phase == creating {
			return true
		}
		pods[c.pod] = true
	}
	now := l.config.Now()
	for _, box := range l.table.sandboxes {
		if !pods[box.pod] && now.Sub(l.table.heard[box.pod]) < creation {
			return true
		}
	}
	return false
}
