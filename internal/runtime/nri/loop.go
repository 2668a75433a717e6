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
	// soonest is how soon everything is compared again when something is expected to change, or
	// did not work: often enough for a person who watches, and rare enough for a thousand containers.
	soonest = 2 * time.Second
	// burst is how long a round waits for more of the same: a pod that ends is several requests.
	burst = 100 * time.Millisecond
	// resend is after how long a reply of which no later request tells is looked for in the cgroups, and
	// what it carries is sent again. A runtime carries a reply out under the lock under which it asked, so only
	// one that asks for nothing leaves this open. Two seconds are what NRI grants a plugin by default.
	resend = 2 * time.Second
	// creation is after how long a container that the runtime never reported as created counts as
	// one: the kubelet gives a creation up after its runtimeRequestTimeout, 2 minutes by default.
	creation = 2 * time.Minute
	// landing is how long an unsolicited update may take in a runtime that asks for other things. Beyond
	// that it is asked to synchronise again, by hanging up. A runtime writes 64 cgroups in well under a second.
	landing = 10 * time.Second
	// calm is for how long a runtime must have asked for nothing before the connection is closed: what it
	// does for one container asks several times within that.
	calm = 250 * time.Millisecond
	// most bounds the containers of an unsolicited update, and so the time for which it has the runtime's
	// lock and no pod can start.
	most = 64
	// owing is how long a runtime that takes no unsolicited updates may owe one before it is
	// asked to synchronise again; the reply carries it. With two rounds of `soonest` it
	// keeps what is owed under 15 s.
	owing = 5 * time.Second
	// patience bounds the doubling of owing for an update that keeps failing, at some five minutes.
	patience = 6
	// remembered is how long a rejection spares a pod that asks again the planning: longer than
	// the kubelet's longest back-off, 5 minutes.
	remembered = 10 * time.Minute
	// beating is how often Config.Alive is called.
	beating = 5 * time.Second
)

// loop is the event loop: one goroutine that owns everything below. Its methods are the events.
// None of them waits; what may wait is a job, and its outcome is an event.
type loop struct {
	*Plugin
	// ctx is the loop's; flow is the same with the number of the event, for what is logged.
	ctx, flow context.Context
	table     *table
	// session is the connection that counts; nil: there is none. synchronised is set once the
	// table is what the runtime has.
	session      *session
	synchronised bool
	// number counts the operations.
	number uint64
	// replies are the operations that were handed to the runtime as replies and may not be carried
	// out yet; flight is the unsolicited update that is under way.
	replies []*operation
	flight  *flight
	// foreign are the containers, by id, that came with CPUs that another manager gave them. While
	// there are any, Paddock stands aside.
	foreign map[string]foreigner
	fresh   bool
	// resuming is set from the moment in which the last of them is gone until the runtime synchronises.
	resuming bool
	// back is set while everything is handed back; nil: it is not.
	back *handingBack
	// lost is when the runtime was answered last before the present connection; beat is when
	// Config.Alive was called last.
	lost, beat time.Time
	// heard is when the runtime asked last.
	heard time.Time
	// owed is since when the runtime owes updates that it takes only in replies. For that the connection was
	// closed dunned times in a row, the last time at dunnedAt.
	owed, dunnedAt time.Time
	dunned         int
	// rejections remember what was rejected, by UID. resized are pods whose request changed.
	// reported are pods whose request was estimated and whose listed request was reported since.
	rejections        map[string]rejected
	resized, reported map[string]bool
	// running are the jobs that are under way, by name.
	running map[string]bool
	// quiet are closed once nothing is under way.
	quiet []chan struct{}
	// adopting are pods that are being adopted: what they get is not enforced yet.
	adopting []string
	// due is when the next round is, timer its channel.
	due   time.Time
	timer <-chan time.Time
}

// rejected is a pod that was rejected, and what was decided about.
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
		foreign: map[string]foreigner{}, rejections: map[string]rejected{}, resized: map[string]bool{}, reported: map[string]bool{}, running: map[string]bool{},
	}
	if l.lost.IsZero() {
		l.lost = p.begun
	}
	l.table = newTable(p.begun)
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
		if len(l.running) == 0 && l.flight == nil {
			for _, done := range l.quiet {
				close(done)
			}
			l.quiet = nil
		}
	}
}

// wake is an event: everything is compared now.
func (l *loop) wake() { l.tick() }

// soon makes the next round come soon, shortly at once.
func (l *loop) soon()    { l.within(soonest) }
func (l *loop) shortly() { l.within(burst) }

// within makes the next round come in that time, if it is not due earlier.
func (l *loop) within(wait time.Duration) {
	if due := l.config.Now().Add(wait); l.due.IsZero() || due.Before(l.due) {
		l.due, l.timer = due, l.config.After(wait)
	}
}

// job runs what may wait, outside the loop, unless one of that name is under way. The event that it
// returns is its outcome.
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

// begin makes an operation. It is handed to the runtime before the next event.
func (l *loop) begin(creates string, unsolicited bool) *operation {
	l.number++
	return &operation{number: l.number, creates: creates, unsolicited: unsolicited, at: l.config.Now()}
}

// reply notes that a reply carries updates.
func (l *loop) reply(by *operation, s *node.State, updates []converge.Update) {
	for _, u := range updates {
		l.table.containers[u.ID].tell(by, u.After, takes(s, u))
	}
	if len(updates) > 0 {
		l.replies = append(l.replies, by)
	}
}

// settle ends the doubt about replies: each of them is carried out, or never will be.
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

// asked is called first for every request of the runtime. It reports whether the connection counts.
// A runtime asks under a lock under which it carried the last reply out. Whether a container was
// created with it tells a request of its own.
func (l *loop) asked(s *session) bool {
	if s == nil || s != l.session {
		return false
	}
	l.heard = l.config.Now()
	l.settle(func(by *operation) bool { return by.creates == "" }, (*container).doubt)
	return true
}

// created is an event: the runtime has a container. The updates beside its creation are made.
func (l *loop) created(s *session, id string) bool {
	if !l.asked(s) {
		return false
	}
	if c := l.table.containers[id]; c != nil {
		c.created()
	}
	l.settle(func(by *operation) bool { return by.creates == id }, (*container).made)
	return true
}

// enter is an event: a sandbox is created. It reports whether the node is managed.
func (l *loop) enter(s *session, box *sandbox) (managed bool, err error) {
	if !l.asked(s) {
		return false, errGone
	}
	l.table.sandboxes[box.id] = box
	l.table.heard[box.pod] = l.config.Now()
	return l.managed(), nil
}

// leave is an event: a sandbox is gone. Its pod keeps everything: a new one may be created.
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
	err     error
}

// create is an event: a container is created. It is told what its pod has now, and in the same
// reply everyone else makes room.
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
	updates, withheld := l.table.safe(state, updates, true)
	over := l.table.overstays(state, updates, true)
	if by := l.table.blocker(over, c.id, setting.CPUs, c.own); by != nil {
		l.soon()
		return placed{err: fmt.Errorf("container %s of pod %s may still run on some of its CPUs %s (%s): it is told to leave, and this is tried again",
			by.name, l.table.who(by.pod), setting.CPUs, by.phase)}
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
	return placed{setting: setting, updates: updates}
}

// resize is an event: the kubelet changes the resources of a container. What is ours stays.
func (l *loop) resize(s *session, id, pod string) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	l.resized[pod] = true
	l.soon()
	known := l.table.containers[id]
	if known == nil {
		return placed{} // It is none of ours, or has ended.
	}
	state := l.state()
	updates, stranded := l.compare(state, id)
	own := converge.Update{ID: id, Pod: known.pod, Container: known.name, Before: known.observed(state).Setting, After: desired(state, known.pod, known.name)}
	own.Before.Quota = node.KeepQuota // The kubelet writes another one with this very request.
	updates = l.table.beside(state, updates, own)
	l.reply(l.begin("", false), state, updates)
	l.reportStranded(stranded)
	return placed{updates: updates}
}

// resizing is an event: the kubelet changes the resources of a pod.
func (l *loop) resizing(s *session, pod string) bool {
	if !l.asked(s) {
		return false
	}
	l.resized[pod] = true
	l.soon()
	return true
}

// end is an event: a container has ended, or its creation failed. Its pod keeps everything: it may
// start again. What others wait for is in the reply, if the request has one.
func (l *loop) end(s *session, id, pod string, replies bool) placed {
	if !l.asked(s) {
		return placed{err: errGone}
	}
	l.settle(func(by *operation) bool { return by.creates == id }, (*container).doubt)
	delete(l.table.containers, id)
	if _, was := l.foreign[id]; was {
		delete(l.foreign, id)
		l.resume()
	}
	l.table.heard[pod] = l.config.Now()
	l.shortly()
	if !replies || !l.managed() {
		return placed{}
	}
	state := l.state()
	updates, stranded := l.compare(state, "")
	updates, _ = l.table.safe(state, updates, true)
	l.reply(l.begin("", false), state, updates)
	l.reportStranded(stranded)
	return placed{updates: updates}
}

// pinned is an event: a container comes with CPUs that another manager gave it. Paddock stands aside
// until it is gone.
func (l *loop) pinned(s *session, id string, f foreigner) bool {
	if !l.asked(s) {
		return false
	}
	l.foreign[id] = f
	l.standAside()
	return true
}

// standAside reports why this node is not managed.
func (l *loop) standAside() {
	first := l.Status().Aside == nil
	l.publish()
	if first {
		l.config.Log.ErrorContext(l.flow, "this node is not managed", "error", l.Status().Aside)
	}
}

// resume ends standing aside once no container is pinned by another manager. The runtime is asked
// to synchronise again, as nothing was done for what was created meanwhile.
func (l *loop) resume() {
	if len(l.foreign) > 0 || l.Status().Aside == nil {
		l.publish()
		return
	}
	l.config.Log.InfoContext(l.flow, "no container is pinned by another manager any more: this node is managed again")
	l.resuming = true
	l.publish()
	l.shortly()
}

// aside is why this node is not managed.
func (l *loop) aside() error {
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
	return fmt.Errorf("container %s of pod %s%s comes with cpuset.cpus %q and cpuset.mems %q: the kubelet's own managers, or another NRI plugin, manage this node, "+
		"and two managers would fight. Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, remove its cpu_manager_state and "+
		"memory_manager_state, restart the kubelet, and restart these pods: then this node is managed. If the CPUs are left over from an earlier Paddock, set nri.takeOver: true",
		one.name, one.pod, more, one.setting.CPUs, memsText(one.setting.Mems))
}

// publish shows readers the present status.
func (l *loop) publish() {
	l.status.Store(&Status{Aside: l.aside(), Connected: l.synchronised, Unenforced: l.unenforced()})
}

// unenforced are the pods with a container that is not known to have its own CPUs.
func (l *loop) unenforced() map[string]bool {
	uids := map[string]bool{}
	for _, uid := range l.adopting {
		uids[uid] = true
	}
	s := l.state()
	for _, c := range l.table.containers {
		if uids[c.pod] || !owns(s, c.pod, c.name) {
			continue
		}
		want := desired(s, c.pod, c.name)
		if !c.everything().CPUs.Equal(want.CPUs) {
			uids[c.pod] = true
		}
	}
	return uids
}

// reportStranded logs the containers that have nowhere to go.
func (l *loop) reportStranded(stranded []converge.Observed) {
	for _, o := range stranded {
		l.config.Log.ErrorContext(l.flow, "the node shared pool is empty: a container stays where it is", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
}
