package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// timeout is the Config.Timeout of a world: how long a request of the runtime may take.
const timeout = time.Second

// world is a node with eight CPUs around a loop: a runtime, a kubelet, a kernel, a disk, and a
// clock. There is no goroutine. Every event is a Step, and its actions are carried out at once or,
// while they are held back, later. A request of the runtime that is not answered in time fails.
type world struct {
	t       tester
	loop    Loop
	now     time.Time
	wake    time.Time
	state   *node.State
	version uint64
	keeper  *promise.Keeper
	// connection is the number of the present connection. Zero means that there is none.
	// connections counts all of them.
	connection, connections uint64
	mayUpdate, crio         bool
	// ending are the UIDs of the pods whose containers are being stopped. blocked is what a runtime
	// that waits for their end does next. If nil, it does not wait.
	ending  map[string]bool
	blocked func()
	listed  map[string]request.Pod
	// onList answers ListGone instead of the source of pods, unless it is nil.
	onList    func(ListGone) Occurrence
	estimated map[string]request.Pod // not listed, with cgroup numbers
	running   map[string]*running    // by id
	boxes     map[string]*Sandbox    // by UID
	lastID    int
	// waiting has the function that each answer is passed to, by its number. answers are those that
	// have got their answer.
	waiting map[uint64]func(any)
	answers []func()
	number  uint64
	// asks is the request that the runtime waits for. The runtime sends no other request meanwhile.
	// If nil, it does not wait.
	asks *asks
	// holds keeps unsolicited updates and the jobs of rounds in held. stalls does that with the
	// jobs for which a request waits. lose is the number of coming updates that are not applied.
	// fail is the number of coming writes of the disk that fail.
	holds, stalls bool
	// blocks keeps the agent's own writes of cgroups in held.
	blocks     bool
	held       []any // Action, or func() for a write that goes on
	lose, fail int
	// exchanges is true while a reply is made that has no safe order; see converge.Answer.
	exchanges bool
	// alerts are the texts that the loop has logged as errors.
	alerts  []string
	status  *Status
	checker *simtest.Checker
	errs    []string
	// steps counts the events. After every `looks` events, an earlier loop is checked again.
	steps, looks int
}

// running is a container of the runtime.
type running struct {
	id, pod, name string
	setting       converge.Setting
	begun         bool
}

// asks is a request that the runtime waits for. failed is what the runtime does if no answer comes
// in time.
type asks struct {
	number uint64
	until  time.Time
	failed func()
}

// tester is a *testing.T, a *testing.B or a *rapid.T.
type tester interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(t tester) *world {
	w := &world{t: t, looks: 1, now: time.Unix(1_800_000_000, 0)}
	w.begin(node.MovePolicy{})
	return w
}

// begin creates a node without pods, with an agent and a runtime.
func (w *world) begin(moved node.MovePolicy) {
	s, err := node.New(scenario.Machine("numa=2 cores=2 threads=2 numbering=adjacent memory=2Gi"), node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 256 << 20}},
		PodLevelResources: true, PodLevelManagers: true, Moves: moved,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.state, w.mayUpdate, w.crio, w.status = s, true, false, &Status{}
	w.ending = map[string]bool{}
	w.listed, w.estimated, w.running, w.boxes = map[string]request.Pod{}, map[string]request.Pod{}, map[string]*running{}, map[string]*Sandbox{}
	w.checkAgain()
	w.boot()
	w.connect()
}

// boot starts an agent from what is durable.
func (w *world) boot() {
	w.held, w.connection, w.waiting, w.answers, w.asks, w.blocked = nil, 0, map[uint64]func(any){}, nil, nil, nil
	w.keeper = promise.New(func() time.Time { return w.now })
	w.state = w.state.WithReservations(nil)
	loop, actions := New(Config{
		Timeout: timeout, Period: 10 * time.Second, Grace: 30 * time.Second, Notice: time.Second, Interval: time.Second, Seen: true, Clock: true, MakesRoom: true, Promises: true,
	}, Start{}, w.engine(), w.now)
	w.loop = loop
	w.carryOut(actions)
}

func (w *world) engine() Engine { return Engine{State: w.state, Version: w.version} }

// apply makes a state durable.
func (w *world) apply(s *node.State) { w.state, w.version = s, w.version+1 }

// reserve takes over the present promises, as the engine does before every decision.
func (w *world) reserve() {
	if next := w.state.WithReservations(w.keeper.Reservations()); next != w.state {
		w.apply(next)
	}
}

// step handles one event. It returns the answer, if that comes at once.
func (w *world) step(of Occurrence) (reply any) {
	number := w.ask(of, func(answer any) { reply = answer })
	delete(w.waiting, number)
	return reply
}

// ask handles one event. It calls then with the answer, and returns the number of the answer.
func (w *world) ask(of Occurrence, then func(any)) uint64 {
	w.number++
	number := w.number
	w.waiting[number], w.exchanges = then, false
	uid, until := w.keeper.Kept()
	e := Event{Engine: w.engine(), Of: of, Request: number, Promised: Promise{uid, until}}
	if w.asks != nil {
		e.Open = 1
	}
	before := ""
	if w.steps++; w.steps%w.looks == 0 {
		before = dump(w.loop)
	}
	loop, actions := Step(w.loop, e, w.now)
	if before != "" {
		w.goBack(e, before, loop, actions)
	}
	w.loop = loop
	w.carryOut(actions)
	for len(w.answers) > 0 {
		next := w.answers[0]
		w.answers = w.answers[1:]
		next()
	}
	return number
}

// goBack checks that a Step has not changed the loop that it was given, and that another Step from
// the same loop has the same result, whatever the loops of the first Step have done since.
func (w *world) goBack(e Event, before string, loop Loop, actions []Action) {
	other, _ := Step(w.loop, Event{Engine: e.Engine, Of: Round{}}, w.now.Add(time.Hour)) // Another future.
	_, _ = Step(other, e, w.now.Add(time.Hour))
	again, sameActions := Step(w.loop, e, w.now)
	if now := dump(w.loop); now != before {
		w.t.Fatalf("a Step of %T has changed the loop that it was given:\n%s\nis now\n%s", e.Of, before, now)
	}
	if a, b := dump(loop), dump(again); a != b || len(actions) != len(sameActions) {
		w.t.Fatalf("the same Step of %T from the same loop differs:\n%s\n%d actions, and\n%s\n%d actions", e.Of, a, len(actions), b, len(sameActions))
	}
}

func (w *world) carryOut(actions []Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case Answer:
			w.answered(a)
		case Wake:
			w.wake = a.At
		case Log:
			w.exchanges = w.exchanges || a.Text == exchanging
			if a.Level == Error {
				w.alerts = append(w.alerts, a.Text)
			}
		case Publish:
			w.status = a.Status
		case Drop:
			w.apply(w.state.Release(a.UID))
		case KeepPlace:
			w.keeper.Keep(a.UID, a.Place, a.Moved)
		case KeepUntil:
			w.keeper.Until(a.UID, a.At)
		case DropPlace:
			w.keeper.Drop(a.UID)
		case HangUp:
			if a.Connection == w.connection {
				w.held = append(w.held, a)
			}
		case Update, WriteCgroups, Job:
			w.held = append(w.held, a)
		}
	}
}

// answered passes an answer on. An answer that comes after its sender gave up is taken back.
func (w *world) answered(a Answer) {
	if then := w.waiting[a.Request]; then != nil {
		delete(w.waiting, a.Request)
		w.answers = append(w.answers, func() { then(a.Reply) })
	} else if placed, is := a.Reply.(Placed); is {
		w.answers = append(w.answers, func() { w.step(Undelivered{placed}) })
	}
}

// request sends a request of the runtime, which waits for the answer, but only for the time within.
func (w *world) request(of Occurrence, within time.Duration, then func(any), failed func()) {
	number := w.ask(of, func(reply any) {
		w.asks = nil
		then(reply)
	})
	if w.waiting[number] != nil {
		w.asks = &asks{number, w.now.Add(within), failed}
	}
}

// goOn carries out the actions that were held back, and what follows from them.
func (w *world) goOn() {
	for range 1000 {
		i := slices.IndexFunc(w.held, func(a any) bool { return !w.isHeld(a) })
		if i < 0 {
			return
		}
		a := w.held[i]
		w.held = slices.Delete(w.held, i, i+1)
		w.carry(a)
	}
	w.errs = append(w.errs, "the loop does not come to rest")
}

func (w *world) isHeld(a any) bool {
	if j, is := a.(Job); is && !j.Until.IsZero() && j.Name != "list" && j.Name != "follow" {
		return w.stalls
	}
	if _, is := a.(WriteCgroups); is && w.blocks {
		return true
	}
	return w.holds // The jobs list and follow are those of rounds.
}

func (w *world) carry(a any) {
	switch a := a.(type) {
	case Update:
		w.land(a)
	case WriteCgroups:
		w.step(a.Carry(w.writeCgroup))
	case Job:
		w.step(Done{a.Name, w.work(a, nil)})
	case HangUp:
		w.disconnect()
		w.connect()
	case func():
		a()
	}
}

// expire ends everything that has waited for too long. The jobs come first, because their outcome
// is the reason in the answer.
func (w *world) expire() {
	late := func(a any) bool {
		j, is := a.(Job)
		return is && !j.Until.IsZero() && !w.now.Before(j.Until)
	}
	for i := slices.IndexFunc(w.held, late); i >= 0; i = slices.IndexFunc(w.held, late) {
		j, _ := w.held[i].(Job)
		w.held = slices.Delete(w.held, i, i+1)
		w.step(Done{j.Name, w.work(j, errLate)})
	}
	if a := w.asks; a != nil && !w.now.Before(a.until) {
		delete(w.waiting, a.number)
		w.asks = nil
		w.errs = append(w.errs, "a request of the runtime is not answered in time")
		a.failed()
	}
}

func (w *world) land(a Update) {
	landed := Landed{Number: a.Number}
	if a.Connection != w.connection {
		landed.Err = errors.New("the connection is closed")
	} else {
		landed.Failed = w.update("UpdateContainers", a.Updates)
	}
	w.step(landed)
}

// writeCgroup writes the cgroup of a container, whose path is its ID. No update is lost there.
func (w *world) writeCgroup(path string, s converge.Setting) error {
	r := w.running[path]
	if r == nil {
		return nil
	}
	lose := w.lose
	w.lose = 0
	w.update(directly, []converge.Update{{ID: path, Before: converge.Setting{Quota: quota.Keep}, After: s}})
	w.lose = lose
	return nil
}

// update makes updates, except those that are lost. It returns the IDs of the containers whose
// updates are lost.
func (w *world) update(hook string, updates []converge.Update) (failed []string) {
	if w.exchanges && w.checker.Err() == nil {
		defer w.checkAgain()
	}
	w.exchanges = false
	for _, u := range updates {
		r := w.running[u.ID]
		if r == nil {
			continue
		}
		if w.crio && w.ending[r.pod] && hook != directly {
			w.errs = append(w.errs, errBlocked.Error())
		}
		next := r.setting
		if !u.After.CPUs.IsEmpty() {
			next.CPUs = u.After.CPUs
		}
		if !u.After.Mems.IsEmpty() {
			next.Mems = u.After.Mems
		}
		if u.After.Quota != u.Before.Quota {
			next.Quota = u.After.Quota
		}
		kind := sim.Updated
		if w.lose > 0 {
			w.lose--
			kind, failed = sim.Lost, append(failed, u.ID)
		} else {
			r.setting = next
		}
		w.observe(kind, hook, r, next)
	}
	return failed
}

// checkAgain starts a new checker with what each container has now.
func (w *world) checkAgain() {
	w.checker = simtest.NewChecker(func() *node.State { return w.state })
	for _, r := range w.containers() {
		w.observe(sim.Replied, "", r, r.setting)
	}
}

func (w *world) observe(kind sim.Kind, hook string, r *running, s converge.Setting) {
	w.checker.Observe(sim.Event{Kind: kind, ID: r.id, Pod: r.pod, Container: r.name, Hook: hook, Setting: s})
}

// wait lets the time d pass, with all timers that are due in it.
func (w *world) wait(d time.Duration) {
	for end := w.now.Add(d); ; {
		w.goOn()
		w.expire()
		next := w.wake
		sooner := func(at time.Time) {
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		for _, a := range w.held {
			if j, is := a.(Job); is {
				sooner(j.Until)
			}
		}
		if w.asks != nil {
			sooner(w.asks.until)
		}
		if next.IsZero() || next.After(end) {
			w.now = end
			return
		}
		if next.After(w.now) {
			w.now = next
		}
		if !w.wake.IsZero() && !w.now.Before(w.wake) {
			w.step(Timer{})
		}
	}
}

// where returns the errors, a line for each container with where it runs and what the loop knows,
// and a line for each move.
func (w *world) where() []string {
	lines := slices.Clone(w.errs)
	w.errs = nil
	for _, r := range w.containers() {
		lines = append(lines, fmt.Sprintf("%s/%s on CPUs %s (%s)", r.pod, r.name, r.setting.CPUs, phaseOf(&w.loop, r.id)))
	}
	for _, m := range w.status.Moving {
		lines = append(lines, fmt.Sprintf("%s is being moved: %s", m.UID, m.Step))
	}
	if err := w.checker.Err(); err != nil {
		lines = append(lines, "broken: "+err.Error())
	}
	return lines
}

// containers returns the containers of the runtime, the oldest first.
func (w *world) containers() []*running {
	var list []*running
	for _, r := range w.running {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *running) int { return strings.Compare(a.id, b.id) })
	return list
}

func phaseOf(l *Loop, id string) string {
	if c := l.containers.get(id); c != nil {
		return c.phase.known().String()
	}
	return "not known"
}

// dump formats everything that a loop has.
func dump(l Loop) string {
	var b strings.Builder
	for _, id := range l.containers.keys() {
		c := *l.containers.get(id)
		sent := c.sent
		if c.sent = nil; c.showing != nil {
			fmt.Fprintf(&b, "showing %v ", *c.showing)
			c.showing = nil
		}
		fmt.Fprintf(&b, "%+v", c)
		for _, s := range sent {
			fmt.Fprintf(&b, " %+v after %v %t", *s.by, s.after, s.own)
		}
		b.WriteString("\n")
	}
	for _, uid := range l.pods.keys() {
		p := *l.pods.get(uid)
		m := p.move
		p.move = nil
		for _, r := range []*Rejection{&p.rejected, &p.vetoed} {
			if r.Err != nil {
				fmt.Fprintf(&b, "%v ", r.Err)
				r.Err = nil
			}
		}
		fmt.Fprintf(&b, "%s %+v", uid, p)
		if m != nil {
			fmt.Fprintf(&b, " move %d: %s since %v, due %v, retry %v, ending %t", m.number, m.step, m.since, m.due, m.retry, m.ending)
		}
		b.WriteString("\n")
	}
	for _, uid := range l.sandboxes.keys() {
		for _, box := range l.boxesOf(uid) {
			fmt.Fprintf(&b, "%+v\n", *box)
		}
	}
	for _, by := range l.replies {
		fmt.Fprintf(&b, "reply %+v\n", *by)
	}
	if l.flight != nil {
		fmt.Fprintf(&b, "flight %+v\n", *l.flight.by)
	}
	if r := l.room; r != nil {
		fmt.Fprintf(&b, "moves %d for %v, %d left\n", r.number, r.pod != nil, len(r.left))
	}
	link := l.link
	if link.noVeto != nil {
		b.WriteString(link.noVeto.Error())
		link.noVeto = nil
	}
	fmt.Fprintln(&b, link, l.gone.len(), l.differing.len(), l.jobs.keys(), l.number, l.steps, l.moves, l.due, l.wake, l.shown)
	return b.String()
}
