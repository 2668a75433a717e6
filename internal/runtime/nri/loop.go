package nri

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	// calm is how long a runtime must be without a request before the connection is closed: while
	// it works on one container, its requests are closer together.
	calm = 250 * time.Millisecond
	// most is the largest number of containers in an unsolicited update. It limits the time for
	// which the update has the runtime's lock and no pod can start.
	most = 64
	// owing is how long an update may wait for a reply of a runtime that takes no unsolicited
	// updates. Then the runtime is asked to synchronise again, and that reply contains it. With two
	// rounds of `soonest` the wait stays under 15 s.
	owing = 5 * time.Second
	// patience is how often owing doubles for an update that keeps failing: to some five minutes.
	patience = 6
	// remembered is how long a rejection answers for a pod that asks again, without planning:
	// longer than the kubelet's longest back-off, 5 minutes.
	remembered = 10 * time.Minute
	// beating is how often Config.Alive is called.
	beating = 5 * time.Second
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
		foreign: map[string]foreigner{}, rejections: map[string]rejected{}, reported: map[string]bool{},
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
	for {
		select {
		case event := <-l.events:
			l.flow = l.config.Operation(ctx)
			event(l)
		case <-l.timer:
			l.flow = l.config.Operation(ctx)
			l.tick()
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
		l.tell(ctx, func(l *loop) {
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
func (l *loop) reply(by *operation, s *node.State, updates []converge.Update) {
	for _, u := range updates {
		l.table.containers[u.ID].send(by, u.After, takes(s, u))
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
func (l *loop) created(s *session, id string) bool {
	if !l.asked(s) {
		return false
	}
	l.settle(func(by *operation) bool { return by.creates == id }, (*container).made)
	return true
}

// started is an event: a container runs. What changed since its creation reaches it now.
func (l *loop) started(s *session, id string) bool {
	if !l.asked(s) {
		return false
	}
	if c := l.table.containers[id]; c != nil {
		c.started()
		if !c.everything().CPUs.Equal(desired(l.state(), c.pod, c.name).CPUs) {
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
	l.table.sandboxes[box.id] = box
	l.table.heard[box.pod] = l.config.Now()
	return l.managed(), nil
}

// leave is an event: a sandbox is gone. Its pod keeps everything, because a new sandbox may follow.
func (l *loop) leave(s *session, id string) bool {
	if !l.asked(s) {
		return false
	}
	if box := l.table.sandboxes[id]; box != nil {
		delete(l.table.sandboxes, id)
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
}

// create is an event: a container is created. The reply has its setting, and the updates of the
// containers that make room.
func (l *loop) create(s *session, c *container) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	state := l.state()
	if l.grant(c.pod) == nil {
		return placed{err: errReleased}
	}
	setting := desired(state, c.pod, c.name)
	if setting.CPUs.IsEmpty() && state.Policy().StaticCPU {
		return placed{setting: setting, err: errEmptyPool}
	}
	c.own = owns(state, c.pod, c.name)
	updates, stranded := l.compare(state, c.id)
	updates, withheld := l.table.safe(state, updates, merged)
	over := l.table.overstays(state, updates, true)
	if by := l.table.blocker(over, c.id, setting.CPUs, c.own); by != nil {
		l.soon()
		return placed{err: fmt.Errorf("its CPUs %s are not free yet: container %s of pod %s is being moved away and may still run on some of them (%s); the kubelet tries again",
			setting.CPUs, by.name, l.table.who(by.pod), by.phase)}
	}
	l.config.Engine.ContainerCreated(c.pod, c.name)
	l.table.heard[c.pod] = l.config.Now()
	l.reply(l.begin(c.id, false), state, updates)
	c.has, c.phase, c.replied, c.since = setting, creating, l.number, l.config.Now()
	l.table.containers[c.id] = c
	l.reportStranded(stranded)
	if withheld > 0 {
		l.soon()
	}
	return placed{setting: setting, updates: updates, noticed: l.noticed(c, setting)}
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
	state := l.state()
	updates, stranded := l.compare(state, "")
	updates, _ = l.table.safe(state, updates, merged)
	l.reply(l.begin("", false), state, updates)
	l.reportStranded(stranded)
	return placed{updates: updates}
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

// publishUnmanaged publishes, and logs once, that this node is not managed.
func (l *loop) publishUnmanaged() {
	first := l.Status().Unmanaged == nil
	l.publish()
	if first {
		l.config.Log.ErrorContext(l.flow, "Paddock does not manage this node", "error", l.Status().Unmanaged)
	}
}

// unmanaged is the reason why Paddock does not manage this node; nil: it does.
func (l *loop) unmanaged() error {
	if len(l.foreign) == 0 {
		return nil
	}
	names := make([]string, 0, len(l.foreign))
	var one foreigner
	for _, f := range l.foreign {
		name := f.pod + "/" + f.name
		if len(names) == 0 || name < slices.Min(names) {
			one = f
		}
		names = append(names, name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > 1 {
		more = fmt.Sprintf(" (and %d others: %s)", len(names)-1, strings.Join(names[1:min(len(names), 5)], ", "))
	}
	return fmt.Errorf("container %s of pod %s%s has cpuset.cpus %q and cpuset.mems %q, which are not in Paddock's state: the kubelet's own managers or another NRI plugin manage this node, "+
		"and two managers would overwrite each other's settings. Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, remove its "+
		"cpu_manager_state and memory_manager_state, restart the kubelet, and restart these pods. Paddock then manages this node. If an earlier Paddock left these CPUs, set nri.takeOver: true",
		one.name, one.pod, more, one.setting.CPUs, memsText(one.setting.Mems))
}

// publish shows readers the present status.
func (l *loop) publish() {
	unenforced := map[string]bool{}
	for _, uid := range l.adopting {
		unenforced[uid] = true
	}
	s := l.state()
	for _, c := range l.table.containers {
		if unenforced[c.pod] || !owns(s, c.pod, c.name) {
			continue
		}
		if _, sizing := l.sizing[c.pod]; sizing && c.own {
			continue // It runs on CPUs of its pod, and on others of them soon.
		}
		want, has := desired(s, c.pod, c.name), c.everything().CPUs
		if m := l.moves[c.pod]; m != nil && !has.IsEmpty() && m.from.CPUs().Union(m.to.CPUs()).Contains(has) {
			continue // It has both places.
		}
		if !has.Equal(want.CPUs) {
			unenforced[c.pod] = true
		}
	}
	vetoes := make(map[string]string, len(l.vetoes))
	for uid, v := range l.vetoes {
		vetoes[uid] = v.err.Error()
	}
	l.status.Store(&Status{Unmanaged: l.unmanaged(), Connected: l.synchronised, Unenforced: unenforced, Vetoes: vetoes, NoVeto: l.noVeto, Moving: l.moving()})
}

// reportStranded logs the containers for which there are no CPUs.
func (l *loop) reportStranded(stranded []converge.Observed) {
	for _, o := range stranded {
		l.config.Log.ErrorContext(l.flow, "the node shared pool is empty: a container keeps the CPUs that it has", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
}
