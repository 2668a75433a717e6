package nri

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
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
	// beating is how often Config.Alive is called.
	beating = 5 * time.Second
	// slowEvent is the time after which an event is logged and counted. No event waits, so a longer
	// one computes too much, or the machine has no CPU time for the agent.
	slowEvent = 100 * time.Millisecond
	// pulse is how often the loop looks whether the process ran. A pulse that is late by more than
	// stalled means that it did not: it was stopped, or the machine was suspended. An agent that
	// only waits for CPU time is late by less.
	pulse, stalled = time.Second, 2 * time.Second
)

// loop is the event loop: one goroutine that owns everything below. Its methods are the events.
// None of them waits. Work that may wait is a job, and its outcome is an event.
type loop struct {
	*Plugin
	// ctx is the loop's context. flow is the same context with the number of the event, for the
	// log.
	ctx, flow context.Context
	table     *table
	// session is the present connection; nil: there is none. synchronised is true once the table
	// shows what the runtime has.
	session      *session
	synchronised bool
	// number counts the operations.
	number uint64
	// replies are the operations that the runtime got as replies and may not have applied yet.
	// flight is the unsolicited update that is under way.
	replies []*operation
	flight  *flight
	// foreign are the containers, by id, whose CPUs another manager chose. While there are any,
	// Paddock does not manage this node.
	foreign map[string]foreigner
	fresh   bool
	// resuming is true from the time when the last foreign container is gone until the runtime
	// synchronises.
	resuming bool
	// back is set while everything is handed back; nil: it is not.
	back *handingBack
	// lost is the last answer to the runtime before the present connection. beat is the last call
	// of Config.Alive.
	lost, beat time.Time
	// pulses is the channel of the next pulse, which is due at pulseDue. stopped is the time since
	// which the process did not run, and resumed when it ran again; zero: it always ran.
	pulses                     <-chan time.Time
	pulseDue, stopped, resumed time.Time
	// hanging is the connection that is to end.
	hanging hanging
	// wanted is what containers should have in the state that was asked for last.
	wanted *converge.Wanted
	// gone are containers that have ended, by id, and when. differing are containers that did not
	// have their settings when they were verified last, by id, and checked is when that was.
	gone      map[string]time.Time
	differing map[string]differing
	checked   time.Time
	// compared is when what runs was last compared with the state, uncompared is why it was not
	// since then, and comparedLog is when that was logged last.
	compared, comparedLog time.Time
	uncompared            error
	// unlistedAt is when it was logged last that the source of pods does not answer; zero: it does.
	unlistedAt time.Time
	// heard is the time of the runtime's last request.
	heard time.Time
	// owed is the time since which updates wait for a reply, of a runtime that takes them only
	// there. For that reason the connection was closed dunned times in a row, the last time at
	// dunnedAt.
	owed, dunnedAt time.Time
	dunned         int
	// rejections are the rejected pods, by UID. reported are pods whose request was estimated and
	// whose listed request was logged since.
	rejections map[string]rejected
	reported   map[string]bool
	// vetoes are the rejected resizes, behind the pods whose grant has another request than the
	// list, lifting until when quotas are looked at often, all by UID. noVeto is why resizes are
	// not decided in advance; nil: they are, as far as is known.
	vetoes  map[string]vetoed
	behind  map[string]unasked
	lifting map[string]time.Time
	noVeto  error
	// sizing are the pods that were resized just now, by UID, and when.
	sizing map[string]time.Time
	// forwards is true once the present connection had a request about the resize of a pod.
	forwards bool
	// since is when the present connection began.
	since time.Time
	// unplanned are the pods that run and could not be planned, by UID, with the error that was
	// logged.
	unplanned map[string]string
	// running are the jobs that are under way, by name.
	running map[string]bool
	// quiet are closed once nothing is under way.
	quiet []chan struct{}
	// moves are the pods that have two places in the published state, by UID, steps counts the
	// changes of their steps, and seen is the last state that was seen with them. movedAt is when a
	// pod was moved last.
	moves map[string]*move
	steps int
	seen  followed
	// shown: a runtime has shown its containers. Before, it is not known how far an earlier process
	// came with a move.
	shown   bool
	movedAt map[string]time.Time
	// room is the set of moves that is under way; nil: none.
	room *room
	// promised is the pod that has a promise since the moves for it have ended.
	promised promised
	// failed are the pods for which moves failed, with the time: they are decided without moves for
	// a while.
	failed map[string]time.Time
	// adopting are pods that are being adopted: their assignments are not enforced yet.
	adopting []string
	// due is the time of the next round, timer its channel.
	due   time.Time
	timer <-chan time.Time
}

// rejected is a pod that was rejected, and the version of the state that the decision is based on.
type rejected struct {
	pod     request.Pod
	version uint64
	at      time.Time
	err     error
}

// foreigner is a container that another manager pinned.
type foreigner struct {
	pod, name string
	setting   converge.Setting
}

func newLoop(p *Plugin) *loop {
	l := &loop{
		Plugin: p, fresh: p.config.Fresh, lost: p.config.LastAnswer,
		foreign: map[string]foreigner{}, gone: map[string]time.Time{}, differing: map[string]differing{}, rejections: map[string]rejected{}, reported: map[string]bool{},
		vetoes: map[string]vetoed{}, behind: map[string]unasked{}, lifting: map[string]time.Time{},
		sizing:    map[string]time.Time{},
		unplanned: map[string]string{}, running: map[string]bool{}, moves: map[string]*move{}, movedAt: map[string]time.Time{}, failed: map[string]time.Time{},
	}
	if l.lost.IsZero() {
		l.lost = p.begun
	}
	l.table = newTable(p.begun)
	for _, g := range p.config.Engine.State().Grants() {
		if g.Resized > 0 { // It is not in the state when it was moved.
			l.movedAt[g.Pod.UID] = p.begun
		}
	}
	return l
}

func (l *loop) run(ctx context.Context) error {
	defer close(l.ended)
	l.ctx = ctx
	l.within(l.config.Period)
	l.beats()
	for {
		select {
		case e := <-l.events:
			l.handle(e.name, e.do)
		case <-l.timer:
			l.handle("tick", (*loop).tick)
		case <-l.pulses:
			l.handle("pulse", (*loop).beats)
		case <-l.hanging.timer:
			l.handle("hang up", (*loop).hangingUp)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if l.config.Notices != nil && l.synchronised {
			for _, c := range l.table.containers {
				if c.phase == settled && (!c.shown || !sameCPUs(c.has, c.showing)) {
					c.shown, c.showing = true, c.has
					l.config.Notices.Changed(l.noticed(c, c.has))
				}
			}
		}
		if len(l.running) == 0 && l.flight == nil {
			for _, done := range l.quiet {
				close(done)
			}
			l.quiet = nil
		}
	}
}

// handle handles an event.
func (l *loop) handle(name string, do func(*loop)) {
	l.flow = l.config.Operation(l.ctx)
	begin := l.config.Now()
	do(l)
	if took := l.config.Now().Sub(begin); took > slowEvent {
		l.config.Observer.Slow(name, took)
		l.config.Log.WarnContext(l.flow, "an event took long: answers to the runtime may come too late", "event", name, "took", took.String(),
			"containers", len(l.table.containers), "sandboxes", len(l.table.sandboxes))
	}
}

// soon makes the next round come soon, shortly almost at once.
func (l *loop) soon()    { l.within(soonest) }
func (l *loop) shortly() { l.within(burst) }

// within makes the next round come in that time, unless it is due earlier.
func (l *loop) within(wait time.Duration) {
	if due := l.config.Now().Add(wait); l.due.IsZero() || due.Before(l.due) {
		l.due, l.timer = due, l.config.After(wait)
	}
}

// job runs work that may wait, outside the loop, unless a job of that name is under way. The event
// that the work returns is its outcome.
func (l *loop) job(name string, work func(ctx context.Context) func(*loop)) {
	if l.running[name] {
		return
	}
	l.running[name] = true
	ctx := l.config.Operation(l.ctx)
	l.jobs.Go(func() {
		outcome := work(ctx)
		l.tell(ctx, name, func(l *loop) {
			delete(l.running, name)
			outcome(l)
		})
	})
}

// begin returns a new operation. The caller gives it to the runtime before the next event.
func (l *loop) begin(creates string, unsolicited bool) *operation {
	l.number++
	return &operation{number: l.number, creates: creates, unsolicited: unsolicited, at: l.config.Now()}
}

// reply notes the updates in a reply.
func (l *loop) reply(by *operation, updates []converge.Update) {
	for _, u := range updates {
		l.table.containers[u.ID].send(by, u.After, takes(l.want(), u))
	}
	if len(updates) > 0 {
		l.replies = append(l.replies, by)
	}
}

// settle ends the wait for the replies for which done is true: each was applied, or never will be.
func (l *loop) settle(done func(*operation) bool, end func(*container, *operation)) {
	l.replies = slices.DeleteFunc(l.replies, func(by *operation) bool {
		if !done(by) {
			return false
		}
		for _, c := range l.table.containers {
			end(c, by)
		}
		return true
	})
}

// asked is called first for every request of the runtime. It reports whether the connection is the
// present one. A runtime asks under the lock under which it applied the last reply. Another request
// reports whether the container of that reply was created.
func (l *loop) asked(s *session) bool {
	if s == nil || s != l.session {
		return false
	}
	l.heard = l.config.Now()
	l.settle(func(by *operation) bool { return by.creates == "" }, (*container).doubt)
	return true
}

// created is an event: the runtime has a container. The updates in the reply to its creation were
// made.
func (l *loop) created(s *session, box *sandbox, made *container) bool {
	if !l.asked(s) {
		return false
	}
	l.learn(box, made)
	l.settle(func(by *operation) bool { return by.creates == made.id }, (*container).made)
	return true
}

// started is an event: a container runs. What changed since its creation reaches it now.
func (l *loop) started(s *session, box *sandbox, made *container) bool {
	if !l.asked(s) {
		return false
	}
	l.learn(box, made)
	if c := l.table.containers[made.id]; c != nil {
		c.started()
		if !c.everything().CPUs.Equal(l.want().Setting(c.pod, c.name).CPUs) {
			l.shortly()
		}
	}
	return true
}

// enter is an event: a sandbox is created. It reports whether Paddock manages the node.
func (l *loop) enter(s *session, box *sandbox) (managed bool, err error) {
	if !l.asked(s) {
		return false, errGone
	}
	l.table.enter(box)
	l.table.heard[box.pod] = l.config.Now()
	return l.managed(), nil
}

// leave is an event: a sandbox is gone. Its pod keeps everything, because a new sandbox may follow.
func (l *loop) leave(s *session, id string) bool {
	if !l.asked(s) {
		return false
	}
	if box := l.table.leave(id); box != nil {
		l.table.heard[box.pod] = l.config.Now()
		l.shortly()
	}
	return true
}

// placed is the answer to a creation or a change of a container.
type placed struct {
	setting converge.Setting
	updates []converge.Update
	noticed Noticed
	err     error
	// by is the reply, made the container that it creates; nil: there is none.
	by   *operation
	made *container
}

// undelivered notes that a reply did not reach the runtime in time: the request has failed, and a
// container that it would have created is not there. The updates count as open.
func (p placed) undelivered(l *loop) {
	if p.by == nil {
		return
	}
	l.settle(func(by *operation) bool { return by == p.by }, (*container).doubt)
	if p.made != nil && l.table.containers[p.made.id] == p.made {
		delete(l.table.containers, p.made.id)
	}
	l.shortly()
}

// create is an event: a container is created. The reply has its setting, and the updates of the
// containers that make room.
func (l *loop) create(s *session, box *sandbox, c *container) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	if err := l.outdated(c); err != nil {
		return placed{err: err}
	}
	l.meet(box)
	w := l.want()
	if l.grant(c.pod) == nil {
		return placed{err: errReleased}
	}
	setting := w.Setting(c.pod, c.name)
	if setting.CPUs.IsEmpty() && w.State().Policy().StaticCPU {
		return placed{setting: setting, err: errEmptyPool}
	}
	c.own = w.Owns(c.pod, c.name)
	updates, stranded := l.compare(c.id)
	updates, withheld := l.table.safe(w, updates, merged)
	over := l.table.overstays(w, updates, true)
	if by := l.table.blocker(over, c.id, setting.CPUs, c.own); by != nil {
		l.soon()
		return placed{err: fmt.Errorf("its CPUs %s are not free yet: container %s of pod %s is being moved away and may still run on some of them (%s); the kubelet tries again",
			setting.CPUs, by.name, l.table.who(by.pod), by.phase)}
	}
	l.config.Engine.ContainerCreated(c.pod, c.name)
	l.table.heard[c.pod] = l.config.Now()
	by := l.begin(c.id, false)
	l.reply(by, updates)
	c.has, c.phase, c.replied, c.since = setting, creating, l.number, l.config.Now()
	l.table.containers[c.id] = c
	l.reportStranded(stranded)
	if withheld > 0 {
		l.soon()
	}
	return placed{setting: setting, updates: updates, noticed: l.noticed(c, setting), by: by, made: c}
}

// end is an event: a container has ended, or its creation failed. Its pod keeps everything, because
// the container may start again. If the request has a reply, it contains the updates that other
// containers wait for.
func (l *loop) end(s *session, id, pod string, replies bool) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	l.settle(func(by *operation) bool { return by.creates == id }, (*container).doubt)
	delete(l.table.containers, id)
	l.gone[id] = l.config.Now()
	if _, was := l.foreign[id]; was {
		delete(l.foreign, id)
		if len(l.foreign) == 0 && l.Status().Unmanaged != nil {
			// The runtime is asked to synchronise again, because nothing was done for what was
			// created meanwhile.
			l.config.Log.InfoContext(l.flow, "another manager no longer pins any container: Paddock manages this node again")
			l.resuming = true
			l.shortly()
		}
		l.publish()
	}
	l.table.heard[pod] = l.config.Now()
	l.shortly()
	if !replies || !l.managed() {
		return placed{}
	}
	updates, stranded := l.compare("")
	updates, _ = l.table.safe(l.want(), updates, merged)
	by := l.begin("", false)
	l.reply(by, updates)
	l.reportStranded(stranded)
	return placed{updates: updates, by: by}
}

// pinned is an event: a container comes with CPUs that another manager chose. Paddock does not
// manage this node until the container is gone.
func (l *loop) pinned(s *session, id string, f foreigner) bool {
	if !l.asked(s) {
		return false
	}
	l.foreign[id] = f
	l.publishUnmanaged()
	return true
}
