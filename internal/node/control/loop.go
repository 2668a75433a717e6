package control

import (
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The times that the loop knows besides those of Config.
const (
	// soonest is how soon everything is compared again if a change is expected, or if something
	// failed: often enough for a person who watches, and rarely enough for a thousand containers.
	soonest = 2 * time.Second
	// burst is how long a round waits for related requests: a pod that ends sends several.
	burst = 100 * time.Millisecond
	// resend is the time after which the updates of a reply are sent again, if no later request and
	// no cgroup proves that the reply was applied. A runtime applies a reply under the lock under
	// which it asked, so only a runtime without further requests leaves this open. NRI gives a
	// plugin two seconds by default.
	resend = 2 * time.Second
	// creation is the time after which a container counts as created although the runtime never
	// reported it. The kubelet stops waiting for a creation after its runtimeRequestTimeout, 2
	// minutes by default.
	creation = 2 * time.Minute
	// landing is how long an unsolicited update may take in a runtime that sends other requests.
	// After that the connection is closed, so that the runtime synchronises again. A runtime writes
	// 64 cgroups in well under a second.
	landing = 10 * time.Second
	// most is the largest number of containers in an unsolicited update. It limits the time for
	// which the update has the runtime's lock and no pod can start.
	most = 64
	// owing is how long an update may wait for a reply of a runtime that takes no unsolicited
	// updates. Then the runtime is asked to synchronise again, and that reply contains it. With two
	// rounds of `soonest` the wait stays under 15 s.
	owing = 5 * time.Second
	// patience is how often owing doubles for an update that keeps failing: to some five minutes.
	patience = 6
	// relisted is how often it is logged that the source of pods still does not answer.
	relisted = 5 * time.Minute
	// remembered is how long a rejection answers for a pod that asks again, without planning:
	// longer than the kubelet's longest back-off, 5 minutes.
	remembered = 10 * time.Minute
	// beating is how often KeepAlive is an action.
	beating = 5 * time.Second
	// pulse is how often the loop looks whether the process ran. A pulse that is late by more than
	// stalled means that it did not: it was stopped, or the machine was suspended. An agent that
	// only waits for CPU time is late by less.
	pulse, stalled = time.Second, 2 * time.Second
)

// Config is what the loop knows of its environment. It never changes.
type Config struct {
	// Timeout bounds the answer to a request, Period is how often everything is compared.
	Timeout, Period time.Duration
	// Grace is how long an estimated pod that the source never listed keeps its CPUs without a
	// sandbox.
	Grace time.Duration
	// TakeOver manages containers that run on CPUs that are not in the state.
	TakeOver bool
	// Notice is the time between the begin of a move and the first change of CPUs. Interval is how
	// long a pod is left alone after a move of it.
	Notice, Interval time.Duration
	// Promises is true if places are promised to pods: then a rejection is repeated for a while
	// only, because the engine notices the end of a promise at its next Tick.
	Promises bool
	// MakesRoom is true if running pods are moved so that others fit, where the policy allows it.
	MakesRoom bool
	// Seen is true if something lists what runs, Notices if something shows containers what they
	// have, and Alive if something notes the last answer to the runtime.
	Seen, Notices, Alive bool
	// Clock is true if Timer comes at the times of Wake. Without it a test makes the rounds, and a
	// pulse that does not come proves nothing.
	Clock bool
}

// Loop is the control loop at one moment. It is a value: Step returns the next one and does not
// change the one that it was given, so a test can go back to any moment. One goroutine at a time
// uses a loop and those that were made from it.
//
// There is a record for each container and for each pod, and one for the connection.
type Loop struct {
	config Config
	// containers are those of the runtime, by its ids, sandboxes those of each pod, and pods what
	// is known of the pods, by UID.
	containers records[container]
	sandboxes  records[boxes]
	pods       records[pod]
	// since is when the table of containers was made.
	since time.Time
	// link is the present connection.
	link link
	// number counts the operations.
	number uint64
	// replies are the operations that the runtime got as replies and may not have applied yet.
	// flight is the unsolicited update that is under way.
	replies []*operation
	flight  *flight
	// foreign are the containers, by id, whose CPUs another manager chose. While there are any,
	// Paddock does not manage this node. fresh is true while the state never had a grant: then
	// Paddock did not assign the CPUs that containers have.
	foreign records[foreigner]
	fresh   bool
	// back is set while everything is handed back; nil: it is not.
	back *handingBack
	// lost is the last answer to the runtime before the present connection. beat is the last
	// KeepAlive.
	lost, beat time.Time
	// pulseDue is when the next pulse is due; zero: never. stopped is the time since which the
	// process did not run, and resumed when it ran again; zero: it always ran.
	pulseDue, stopped, resumed time.Time
	// gone are containers that have ended, by id, and when. differing are containers that did not
	// have their settings when they were verified last, by id, and checked is when that was.
	gone      records[time.Time]
	differing records[differing]
	checked   time.Time
	// compared is when what runs was last compared with the state, uncompared is why it was not
	// since then, and comparedLog is when that was logged last.
	compared, comparedLog time.Time
	uncompared            error
	// unlistedAt is when it was logged last that the source of pods does not answer; zero: it does.
	unlistedAt time.Time
	// jobs are those that are under way, by name.
	jobs records[struct{}]
	// views is the state as the loop sees it. steps counts the changes of the steps of moves, and
	// moves is the last number of a move.
	views memo
	steps int
	moves uint64
	// followed is the published state whose moves are followed, and followedShown the value of
	// shown then.
	followed      *node.State
	followedShown bool
	// shown: a runtime has shown its containers. Before, it is not known how far an earlier process
	// came with a move.
	shown bool
	// room is the set of moves that is under way; nil: none.
	room *room
	// due is the time of the next round, liftDue that of the next look at the quotas of pods that
	// the kubelet resizes; zero: none is planned. wake is the earliest of all times that the loop
	// waits for, as it was passed on last.
	due, liftDue, wake time.Time
}

// pod is what is known of a pod beside its grant.
type pod struct {
	// heard is the time of the pod's last event.
	heard time.Time
	// rejected is the last rejection of the pod, vetoed that of its resize.
	rejected, vetoed Rejection
	// adopting: the pod is being adopted, and its assignments are not enforced yet. unplanned is
	// the error that was logged of a pod that runs and could not be planned.
	adopting  bool
	unplanned string
	// reported: the request was estimated, and the listed request was logged since.
	reported bool
	// behind is the request that the pod is listed with, if its grant has another one. lifting is
	// until when the quota is looked at often, sizing when the pod was resized just now.
	behind          unasked
	lifting, sizing time.Time
	// move is a move that is under way; nil: there is none. movedAt is when the pod was moved last,
	// failed when moves for it failed: it is decided without moves for a while.
	move            *move
	movedAt, failed time.Time
}

// empty reports whether nothing is known of a pod.
func (p *pod) empty() bool {
	return p.heard.IsZero() && p.rejected.Err == nil && p.vetoed.Err == nil && !p.adopting && p.unplanned == "" && !p.reported &&
		p.behind.since.IsZero() && p.lifting.IsZero() && p.sizing.IsZero() && p.move == nil && p.movedAt.IsZero() && p.failed.IsZero()
}

// Rejection is why a pod or its resize was rejected: when, and the version of the state that the
// decision is based on.
type Rejection struct {
	Pod     request.Pod
	Version uint64
	At      time.Time
	Err     error
}

// repeats is the rejection as the answer for a pod that asks for the same again while nothing has
// changed; nil: it is decided again. What keeps a place for another pod can end without a change of
// the state.
func (l *Loop) repeats(r Rejection, asks request.Pod, now time.Time, e *Engine) error {
	if r.Err == nil || r.Version != e.Version || !r.Pod.SameQuestion(asks) {
		return nil
	}
	if (l.config.Promises || e.State.Policy().Moves.Pods > 0) && now.Sub(r.At) >= rechecked {
		return nil
	}
	return r.Err
}

// foreigner is a container that another manager pinned.
type foreigner struct {
	pod, name string
	setting   converge.Setting
}

// memo is the state as the loop sees it: with the pods that are being moved in their steps. It is
// computed when it is asked for, and is the same for the same state and steps.
type memo struct {
	of     *node.State
	steps  int
	state  *node.State
	wanted *converge.Wanted
}

// Start is what a loop begins with.
type Start struct {
	// Fresh is true if the engine's state never had a grant. LastAnswer is the last answer of an
	// earlier process to the runtime; zero: unknown, or never.
	Fresh      bool
	LastAnswer time.Time
}

// New is a loop without a connection, and its first actions.
func New(c Config, begin Start, e Engine, now time.Time) (Loop, []Action) {
	l := Loop{config: c, fresh: begin.Fresh, lost: begin.LastAnswer, since: now}
	if l.lost.IsZero() {
		l.lost = now
	}
	s := &step{Loop: l, owner: new(owner), now: now, engine: e}
	for _, g := range e.State.Grants() {
		if g.Resized > 0 { // It is not in the state when it was moved.
			s.pods.edit(s, g.Pod.UID).movedAt = now
		}
	}
	s.within(c.Period)
	s.beats()
	s.wakeUp()
	return s.Loop, s.actions
}

// Step handles an event, and returns the next loop and what is to be done, in this order. It does
// not change the loop that it was given.
func Step(l Loop, e Event, now time.Time) (Loop, []Action) {
	s := &step{Loop: l, owner: new(owner), now: now, engine: e.Engine, event: e}
	if s.back == nil {
		s.followMoves()
	}
	e.Of.on(s)
	s.notify()
	s.wakeUp()
	return s.Loop, s.actions
}

// step is a Step that is under way: the next loop, and the actions so far.
type step struct {
	Loop
	owner   *owner
	now     time.Time
	engine  Engine
	event   Event
	actions []Action
}

// answer answers the event. It is called once, after everything that must be done before.
func (s *step) answer(reply any) { s.do(Answer{s.event.Request, reply}) }

func (s *step) do(a ...Action) { s.actions = append(s.actions, a...) }

func (s *step) info(text string, args ...any)  { s.do(Log{Info, text, args}) }
func (s *step) warn(text string, args ...any)  { s.do(Log{Warn, text, args}) }
func (s *step) alert(text string, args ...any) { s.do(Log{Error, text, args}) }

// soon makes the next round come soon, shortly almost at once.
func (s *step) soon()    { s.within(soonest) }
func (s *step) shortly() { s.within(burst) }

// within makes the next round come in that time, unless it is due earlier.
func (s *step) within(wait time.Duration) {
	if due := s.now.Add(wait); s.due.IsZero() || due.Before(s.due) {
		s.due = due
	}
}

// wakeUp passes on the next time at which the loop does something by itself, if it has changed.
func (s *step) wakeUp() {
	next := s.due
	for _, at := range []time.Time{s.pulseDue, s.liftDue, s.link.lateAt(), s.link.ending.at} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.Equal(s.wake) {
		s.wake = next
		s.do(Wake{next})
	}
}

// Timer is an event: the time of Wake has come.
type Timer struct{}

func (Timer) on(s *step) {
	passed := func(at time.Time) bool { return !at.IsZero() && !s.now.Before(at) }
	if passed(s.pulseDue) {
		s.beats()
	}
	if passed(s.link.lateAt()) {
		s.link.late = true
		s.hangUp(late, fmt.Errorf("the runtime did not synchronise within %v", registering))
	}
	if passed(s.link.ending.at) {
		s.hangingUp()
	}
	if passed(s.liftDue) {
		s.lift()
	}
	if passed(s.due) {
		s.round()
	}
	s.wake = time.Time{} // It is passed on again, also if it is the same.
}

// Round is an event: everything is compared now.
type Round struct{}

func (Round) on(s *step) { s.round() }

// job is an action that may wait, unless one of that name is under way. It reports whether it
// begins. Its outcome is a Done.
func (s *step) job(name string, a Action) bool { return s.jobUntil(name, time.Time{}, a) }

// jobUntil is a job that ends at a time at the latest.
func (s *step) jobUntil(name string, until time.Time, a Action) bool {
	if s.jobs.get(name) != nil {
		return false
	}
	s.jobs.put(s, name, struct{}{})
	s.do(Job{name, a, until})
	return true
}

// jobOfRound is a job that asks others than the disk: it ends with Timeout.
func (s *step) jobOfRound(name string, a Action) bool {
	return s.jobUntil(name, s.now.Add(s.config.Timeout), a)
}

// Done is an event: a job has ended.
type Done struct {
	Job     string
	Outcome Occurrence // nil: nothing follows
}

func (d Done) on(s *step) {
	s.jobs.remove(s, d.Job)
	if d.Outcome != nil {
		d.Outcome.on(s)
	}
}

// Quiet reports whether no job and no update is under way.
func (l *Loop) Quiet() bool { return l.jobs.len() == 0 && l.flight == nil }

// Size is the number of containers, and of pods with a sandbox.
func (l *Loop) Size() (containers, pods int) { return l.containers.len(), l.sandboxes.len() }

// heardOf notes an event of a pod.
func (s *step) heardOf(uid string) { s.pods.edit(s, uid).heard = s.now }

// pod is what is known of a pod.
func (l *Loop) pod(uid string) pod {
	if p := l.pods.get(uid); p != nil {
		return *p
	}
	return pod{}
}

// state is the state that containers are compared with: that of the engine with the pods that are
// being moved in their steps or, while everything is handed back, one without grants.
func (s *step) state() *node.State { return s.want().State() }

// want is what the containers should have in that state.
func (s *step) want() *converge.Wanted {
	of := s.engine.State
	if s.back != nil {
		of = s.back.state
	}
	if s.views.of != of || s.views.steps != s.steps {
		v := of
		if s.back == nil {
			for _, uid := range s.moving() {
				v = v.During(uid, s.pod(uid).move.step)
			}
		}
		s.views = memo{of, s.steps, v, converge.Want(v)}
	}
	return s.views.wanted
}

// updates are what can be done for the containers now. A container that is handed back gets the
// quota again that the kubelet wrote.
func (s *step) updates(on converge.Occasion) converge.Answer {
	if s.back != nil {
		on.Strangers = s.back.before.KubeletQuota
	}
	known := make([]converge.Container, 0, s.containers.len())
	for _, c := range s.containers.all() {
		known = append(known, c.known(s.now))
	}
	return s.want().Update(known, on)
}

// managed reports whether Paddock manages this node.
func (l *Loop) managed() bool {
	return l.foreign.len() == 0 && l.link.mode != resuming && l.back == nil
}

// grant is the durable grant of a pod, or nil. A pod whose release is decided and not yet written
// has none: its CPUs may be planned for another pod.
func (s *step) grant(uid string) *node.Grant { return s.engine.Grant(uid) }
