package control

import (
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The times and limits of the loop, besides those of Config.
const (
	// soonest is how soon everything is compared again if a change is expected, or if something
	// failed. That is often enough for a person who watches, and rare enough for a thousand
	// containers.
	soonest = 2 * time.Second
	// burst is how long a round waits for related requests. A pod that ends sends several.
	burst = 100 * time.Millisecond
	// resend is the time after which the updates of a reply are sent again, if no later request and
	// no cgroup proves that the reply was applied. A runtime applies a reply under the lock under
	// which it asked, so the outcome stays open only if the runtime sends no further requests. NRI
	// gives a plugin two seconds by default.
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
	// updates. After that the runtime is asked to synchronise again, and the reply to Synchronize
	// contains the update. With two rounds of `soonest` the wait stays under 15 s.
	owing = 5 * time.Second
	// patience is how many times owing doubles for an update that keeps failing: up to about five
	// minutes.
	patience = 6
	// relisted is the time between two log lines about a source of pods that still does not answer.
	relisted = 5 * time.Minute
	// remembered is how long a rejection is kept as the answer for a pod that asks again, without
	// planning it. It is longer than the kubelet's longest back-off, 5 minutes.
	remembered = 10 * time.Minute
	// beating is the time between two KeepAlive actions.
	beating = 5 * time.Second
	// pulse is how often the loop checks whether the process ran. A pulse that is late by stalled
	// or more means that it did not run: it was stopped, or the machine was suspended. An agent
	// that only waits for CPU time is late by less.
	pulse, stalled = time.Second, 2 * time.Second
)

// Config describes the environment of the loop. It never changes.
type Config struct {
	// Timeout bounds the answer to a request. Period is how often everything is compared.
	Timeout, Period time.Duration
	// Grace is how long an estimated pod that the source never listed keeps its CPUs without a
	// sandbox.
	Grace time.Duration
	// TakeOver makes Paddock manage containers that run on CPUs that are not in the state.
	TakeOver bool
	// Notice is the time between the beginning of a move and the first change of CPUs. Interval is
	// how long a pod is not moved again after a move.
	Notice, Interval time.Duration
	// Promises is true if places are promised to pods. A rejection is then repeated only for a
	// while, because the engine notices the end of a promise at its next Tick.
	Promises bool
	// MakesRoom is true if running pods are moved so that others fit, if the policy allows it.
	MakesRoom bool
	// Seen is true if the edge can list the running containers. Notices is true if it can show
	// containers what they have. Alive is true if it can note the last answer to the runtime.
	Seen, Notices, Alive bool
	// Clock is true if Timer comes at the times of Wake. Without a clock, a test triggers the
	// rounds, and a missing pulse proves nothing.
	Clock bool
}

// Loop is the control loop at one moment. It is a value: Step returns the next Loop and does not
// change the one that it was given, so a test can go back to any moment. Only one goroutine at a
// time may use a Loop and the Loops that were made from it.
//
// A Loop has a record for each container and for each pod, and one for the connection.
type Loop struct {
	config Config
	// containers are the runtime's containers by ID. sandboxes are the sandboxes of each pod, and
	// pods is what is known about each pod, both by UID.
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
	// flight is the unsolicited update that is under way. If nil, there is none.
	replies []*operation
	flight  *flight
	// foreign are the containers, by ID, whose CPUs another manager chose. While there are any,
	// Paddock does not manage this node. fresh is true as long as the state never had a grant, so
	// that Paddock did not assign the CPUs that containers have.
	foreign records[foreigner]
	fresh   bool
	// back is set while everything is handed back, and nil otherwise.
	back *handingBack
	// lost is the time of the last answer to the runtime before the present connection. beat is the
	// time of the last KeepAlive.
	lost, beat time.Time
	// pulseDue is when the next pulse is due. If zero, no pulse is expected. stopped is the time
	// since which the process did not run, and resumed is when it ran again. If zero, it always
	// ran.
	pulseDue, stopped, resumed time.Time
	// gone has the time at which each ended container ended, by ID. differing are the containers,
	// by ID, that did not have their settings when they were last verified, at the time checked.
	gone      records[time.Time]
	differing records[differing]
	checked   time.Time
	// compared is when the running containers were last compared with the state. uncompared is the
	// reason why they have not been compared since. comparedLog is when that was last logged.
	compared, comparedLog time.Time
	uncompared            error
	// unlistedAt is when it was last logged that the source of pods does not answer. If zero, it
	// answers.
	unlistedAt time.Time
	// jobs are the jobs that are under way, by name.
	jobs records[struct{}]
	// views is the state as the loop sees it. steps counts the changes of the steps of moves. moves
	// is the number of the last move.
	views memo
	steps int
	moves uint64
	// followed is the published state whose moves the loop follows. followedShown is the value that
	// shown had then.
	followed      *node.State
	followedShown bool
	// shown is set once a runtime has shown its containers. Before that, it is not known how far an
	// earlier process came with a move.
	shown bool
	// room is the set of moves that is under way. If nil, there is none.
	room *room
	// due is the time of the next round. liftDue is the time of the next look at the quotas of pods
	// that the kubelet resizes. If zero, none is planned. wake is the earliest of all times that
	// the loop waits for, as it was last passed on.
	due, liftDue, wake time.Time
}

// pod is what is known about a pod besides its grant.
type pod struct {
	// heard is the time of the pod's last event.
	heard time.Time
	// rejected is the last rejection of the pod. vetoed is the last rejection of its resize.
	rejected, vetoed Rejection
	// adopting is true while the pod is being adopted, and its assignments are not enforced yet.
	// unplanned is the error that was logged because the running pod could not be planned.
	adopting  bool
	unplanned string
	// reported is true if the request was estimated and the listed request has been logged since.
	reported bool
	// behind is the request with which the pod is listed, if its grant has another one. lifting is
	// the time until which the quota is checked often. sizing is when the pod was resized, and zero
	// again some time later.
	behind          unasked
	lifting, sizing time.Time
	// move is the move that is under way. If nil, there is none. movedAt is when the pod was last
	// moved. failed is when moves for the pod failed. The pod is then decided without moves for a
	// while.
	move            *move
	movedAt, failed time.Time
}

// empty reports whether nothing is known about a pod.
func (p *pod) empty() bool {
	return p.heard.IsZero() && p.rejected.Err == nil && p.vetoed.Err == nil && !p.adopting && p.unplanned == "" && !p.reported &&
		p.behind.since.IsZero() && p.lifting.IsZero() && p.sizing.IsZero() && p.move == nil && p.movedAt.IsZero() && p.failed.IsZero()
}

// Rejection is the rejection of a pod or of its resize. Version is the version of the state on
// which the decision is based.
type Rejection struct {
	Pod     request.Pod
	Version uint64
	At      time.Time
	Err     error
}

// repeats returns the error of a rejection if the pod asks for the same again and nothing has
// changed. It returns nil if the request has to be decided again. A place that is kept for another
// pod can become free without a change of the state, so with such places a rejection counts for a
// while only.
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

// memo is the state as the loop sees it, in which each pod that is being moved is in its step. It
// is computed on demand, and is the same for the same state and steps.
type memo struct {
	of     *node.State
	steps  int
	state  *node.State
	wanted *converge.Wanted
}

// Start has the facts with which a loop begins.
type Start struct {
	// Fresh is true if the engine's state never had a grant. LastAnswer is the time of the last
	// answer of an earlier process to the runtime. If zero, it is unknown, or there was none.
	Fresh      bool
	LastAnswer time.Time
}

// New returns a loop without a connection, and its first actions.
func New(c Config, begin Start, e Engine, now time.Time) (Loop, []Action) {
	l := Loop{config: c, fresh: begin.Fresh, lost: begin.LastAnswer, since: now}
	if l.lost.IsZero() {
		l.lost = now
	}
	s := &step{Loop: l, owner: new(owner), now: now, engine: e}
	for _, g := range e.State.Grants() {
		if g.Resized > 0 { // The state does not have the time of the move.
			s.pods.edit(s, g.Pod.UID).movedAt = now
		}
	}
	s.within(c.Period)
	s.beats()
	s.wakeUp()
	return s.Loop, s.actions
}

// Step handles an event. It returns the next loop and the actions in the order in which they are to
// be carried out. It does not change the loop that it was given.
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

// step is a Step that is under way: the next loop and the actions so far.
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

// soon brings the next round forward to soonest from now, and shortly to burst from now.
func (s *step) soon()    { s.within(soonest) }
func (s *step) shortly() { s.within(burst) }

// within makes the next round due after wait, unless it is due earlier.
func (s *step) within(wait time.Duration) {
	if due := s.now.Add(wait); s.due.IsZero() || due.Before(s.due) {
		s.due = due
	}
}

// wakeUp passes on the next time at which the loop acts without an event, if it has changed.
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
		s.hangUp(late, fmt.Errorf("the runtime did not synchronise within %v", s.link.connectingFor()))
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
	s.wake = time.Time{} // It is passed on again even if it is the same.
}

// Round is an event: everything is to be compared now.
type Round struct{}

func (Round) on(s *step) { s.round() }

// job begins an action that may wait, unless a job of that name is under way. It reports whether
// the action begins. Its outcome is a Done.
func (s *step) job(name string, a Action) bool { return s.jobUntil(name, time.Time{}, a) }

// jobUntil is job with a deadline.
func (s *step) jobUntil(name string, until time.Time, a Action) bool {
	if s.jobs.get(name) != nil {
		return false
	}
	s.jobs.put(s, name, struct{}{})
	s.do(Job{name, a, until})
	return true
}

// jobOfRound is job for an action that asks something other than the disk. It ends after
// Config.Timeout.
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

// Size returns the number of containers, and of pods with a sandbox.
func (l *Loop) Size() (containers, pods int) { return l.containers.len(), l.sandboxes.len() }

// heardOf notes an event of a pod.
func (s *step) heardOf(uid string) { s.pods.edit(s, uid).heard = s.now }

// pod returns what is known about a pod.
func (l *Loop) pod(uid string) pod {
	if p := l.pods.get(uid); p != nil {
		return *p
	}
	return pod{}
}

// state returns the state with which containers are compared: the engine's state, in which each pod
// that is being moved is in its step or, while everything is handed back, a state without grants.
func (s *step) state() *node.State { return s.want().State() }

// want returns what the containers should have in that state.
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

// updates returns what can be done for the containers now. A container that is handed back gets the
// quota again that the kubelet wrote.
func (s *step) updates(on converge.Occasion) converge.Answer {
	if s.back != nil {
		on.Strangers = s.back.before.KubeletQuota
	}
	known := make([]converge.Container, 0, s.containers.len())
	for _, c := range s.containers.all() {
		k := c.known(s.now)
		if on.By != converge.Unsolicited && s.isStopping(c) && s.back == nil {
			k.Phase = converge.Creating // No update reaches it.
		}
		known = append(known, k)
	}
	return s.want().Update(known, on)
}

// managed reports whether Paddock manages this node.
func (l *Loop) managed() bool {
	return l.foreign.len() == 0 && l.link.mode != resuming && l.back == nil
}

// grant returns the durable grant of a pod, or nil. A pod whose release is decided but not written
// yet has none, because its CPUs may be planned for another pod.
func (s *step) grant(uid string) *node.Grant { return s.engine.Grant(uid) }
