package control

import (
	"errors"
	"time"
)

// mode is the progress of the connection to the runtime.
type mode int

const (
	// away: there is no connection.
	away mode = iota
	// connecting: the runtime has not synchronised yet.
	connecting
	// managing: the runtime has synchronised.
	managing
	// resuming: the last container of another manager is gone, and the runtime has to synchronise
	// again.
	resuming
)

// link is the connection to the runtime.
type link struct {
	id   uint64 // Zero means that there is none.
	mode mode
	// since is when the connection began. late is true once it was noted that the runtime did not
	// synchronise in time.
	since time.Time
	late  bool
	// mayUpdate is true if the runtime takes unsolicited updates. listsLate is true if the runtime
	// synchronises while it creates containers and does not show those containers, and if it is
	// blocked by a container that stops (stopping.go).
	mayUpdate, listsLate bool
	// forwards is true once the runtime asked about the resize of a pod. noVeto is the reason why
	// resizes are not decided in advance. If nil, they are, as far as the loop knows.
	forwards bool
	noVeto   error
	ending   ending
	// heard is the time of the runtime's last request. debt is the updates that the runtime has not
	// taken yet. Both outlive the connection.
	heard time.Time
	debt  debt
}

// synchronised reports whether the table of containers shows what the runtime has.
func (l *link) synchronised() bool { return l.mode >= managing }

// debt describes the updates that wait for a reply, because the runtime takes them only there.
// since is when the wait began. If zero, no update waits. dunned is how many times in a row the
// connection was closed for that reason, and dunnedAt is the time of the last one.
type debt struct {
	since, dunnedAt time.Time
	dunned          int
}

// registering is how long a runtime may take to synchronise after the connection began.
const registering = 15 * time.Second

// lateAt returns the time from which a runtime that has not synchronised is late. It returns zero
// if the runtime has synchronised, or if the delay was noted already.
func (l *link) lateAt() time.Time {
	if l.mode != connecting || l.late {
		return time.Time{}
	}
	return l.since.Add(l.connectingFor())
}

// Connected is an event: a connection exists, without a request so far. The numbers of connections
// ascend and are above 0.
type Connected struct{ Connection uint64 }

func (e Connected) on(s *step) {
	s.link = link{id: e.Connection, mode: connecting, since: s.now, heard: s.link.heard, debt: s.link.debt}
	s.do(CountVetoes{true})
	s.publish()
}

// Configured is an event: the runtime has named itself. The answer is true if the connection is the
// present one.
type Configured struct {
	Connection           uint64
	MayUpdate, ListsLate bool
}

func (e Configured) on(s *step) {
	counts := e.Connection == s.link.id
	if counts {
		s.link.mayUpdate, s.link.listsLate = e.MayUpdate, e.ListsLate
	}
	s.answer(counts)
}

// Disconnected is an event: a connection has ended. It is not known whether its last replies were
// applied. The answer is true if the runtime had synchronised.
type Disconnected struct{ Connection uint64 }

func (e Disconnected) on(s *step) {
	if e.Connection != s.link.id {
		s.answer(false)
		return
	}
	useful := s.link.synchronised()
	s.link.id, s.link.mode, s.link.ending, s.link.debt.since = 0, away, ending{}, time.Time{}
	s.settle(func(*operation) bool { return true }, (*container).doubt)
	if useful {
		s.lost = s.lastSure()
		s.do(CountConnected{false})
	}
	s.publish()
	s.answer(useful)
}

// The stages of the end of a connection, measured from the moment when the end is decided. A
// runtime continues without Paddock if it loses the connection while it waits for an answer, or
// asks at the moment when the connection ends. So a connection ends between an answer and the next
// request, and creations at that moment fail before it ends. A node that starts pods all the time
// has no other such moments.
const (
	// calm is how long the runtime must have been silent at first. While it works on one container,
	// its requests are closer together.
	calm = 250 * time.Millisecond
	// failing is when requests that create or resize something begin to fail. The kubelet tries
	// again on the next connection. From then on a pause is enough, in which the last answer
	// reaches the runtime.
	failing, pause = 3 * time.Second, 25 * time.Millisecond
	// hasty is when the connection ends as soon as no request is open. latest is when it ends in
	// any case. No request is open for longer than its answer may take.
	hasty, latest = 8 * time.Second, 15 * time.Second
)

// errRenewing is the answer to a request that creates or resizes something shortly before the
// connection ends.
var errRenewing = errors.New("paddock: the connection to the runtime is being renewed; the kubelet tries again")

// reason is the reason why a connection has to end.
type reason int

const (
	staying  reason = iota // It does not end.
	late                   // The runtime has not synchronised in time.
	toResume               // Another manager is gone.
	inDebt                 // Updates wait for a reply.
	stuck                  // An update never landed.
)

// ending describes the coming end of a connection.
type ending struct {
	why   reason
	cause error
	since time.Time
	// at is when the end is considered next. renews is true once requests that create or resize
	// something fail. flight is the update that is stuck.
	at     time.Time
	renews bool
	flight uint64
}

// renewing reports whether a request that creates or resizes something fails, because its
// connection is about to end.
func (s *step) renewing(connection uint64) bool {
	return connection == s.link.id && s.link.ending.renews
}

// stillEnds reports whether the reason to end the connection still exists.
func (s *step) stillEnds() bool {
	switch s.link.ending.why {
	case late:
		return s.link.mode == connecting
	case toResume:
		return s.link.mode == resuming
	case inDebt:
		return s.mayDun()
	case stuck:
		return s.flight != nil && s.flight.by.number == s.link.ending.flight
	case staying:
	}
	return false
}

// hangUp ends the present connection, within `latest`. The runtime synchronises the next one. If
// the connection already has a reason to end, that reason counts.
func (s *step) hangUp(why reason, cause error) {
	if s.link.id == 0 {
		return
	}
	if e := &s.link.ending; e.why == staying {
		*e = ending{why: why, cause: cause, since: s.now, flight: e.flight}
	}
	s.hangingUp()
}

// hangingUp ends the connection that has to end, if this is a good moment for it.
func (s *step) hangingUp() {
	if !s.stillEnds() {
		s.link.ending = ending{}
		return
	}
	e := &s.link.ending
	waited, quiet := s.now.Sub(e.since), s.now.Sub(latestOf(s.link.heard, s.event.Answered))
	e.renews = waited >= failing
	next := calm
	if waited >= failing {
		next = pause
	}
	busy := s.event.Open > 0 || waited < hasty && quiet < next
	if busy && waited < latest {
		e.at = s.now.Add(next)
		return
	}
	if d := &s.link.debt; e.why == inDebt {
		d.dunned, d.dunnedAt = min(d.dunned+1, patience), s.now
	}
	s.do(HangUp{s.link.id, e.cause})
	s.link.ending = ending{renews: e.renews} // It ends now.
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// underWay reports whether the runtime is creating a sandbox or a container, as far as the loop
// knows, or has not started what it has created. A sandbox without a container counts for as long
// as a kubelet waits for a creation.
func (s *step) underWay() bool {
	pods := map[string]bool{}
	for _, c := range s.containers.all() {
		if c.creating() {
			return true
		}
		pods[c.pod] = true
	}
	for uid := range s.sandboxes.all() {
		if !pods[uid] && s.now.Sub(s.pod(uid).heard) < creation {
			return true
		}
	}
	return false
}

// beats notes a pulse. A late pulse shows that the process was stopped.
func (s *step) beats() {
	s.noteStop()
	if s.config.Clock {
		s.pulseDue = s.now.Add(pulse)
	}
}

// noteStop notes, once, that the process did not run since the pulse before the one that is due.
// The process was stopped, or the machine was suspended.
func (s *step) noteStop() {
	if s.pulseDue.IsZero() || s.now.Sub(s.pulseDue) < stalled {
		return
	}
	s.stopped, s.resumed, s.pulseDue = s.pulseDue.Add(-pulse), s.now, s.now
	s.warn("the agent did not run: a runtime that asked meanwhile has started pods without it", "for", s.now.Sub(s.stopped).String())
}

// lastSure returns the last time at which the agent could certainly answer, for a connection that
// ends now. A runtime closes the connection to an agent that does not run, and the agent notices
// that only when it runs again.
func (s *step) lastSure() time.Time {
	s.noteStop()
	if !s.stopped.IsZero() && s.now.Sub(s.resumed) < stalled {
		return s.stopped
	}
	return s.now
}
