package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// world is a node of eight CPUs around a loop: a runtime, a kubelet, a kernel, a disk that takes no
// time, and a clock. There is no goroutine: every event is a Step, and its actions are carried out
// at once or, while they are held back, later.
type world struct {
	t       tester
	loop    Loop
	now     time.Time
	wake    time.Time
	state   *node.State
	version uint64
	// connection is the present one; 0: there is none. connections counts them.
	connection, connections uint64
	mayUpdate               bool
	listed                  map[string]request.Pod
	running                 map[string]*running // by id
	boxes                   map[string]*Sandbox // by UID
	lastID                  int
	// holds keeps jobs and unsolicited updates in held. lose is how many of the next updates are
	// not applied.
	holds bool
	held  []Action
	lose  int
	// reply is the answer to the last event, and status what was published last.
	reply   any
	status  *Status
	checker *simtest.Checker
	errs    []string
	// steps counts the events. Each time after looks of them, an earlier loop is looked at again.
	steps, looks int
}

// running is a container that the runtime has.
type running struct {
	id, pod, name string
	setting       converge.Setting
	begun         bool
}

// tester is a test, or one of rapid.
type tester interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(t tester) *world {
	s, err := node.New(scenario.Machine("numa=2 cores=2 threads=2 numbering=adjacent memory=2Gi"), node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 256 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, looks: 1, now: time.Unix(1_800_000_000, 0), state: s, mayUpdate: true, status: &Status{}, listed: map[string]request.Pod{}, running: map[string]*running{}, boxes: map[string]*Sandbox{}}
	w.checker = simtest.NewChecker(func() *node.State { return w.state })
	w.boot()
	w.connect()
	return w
}

// boot starts an agent on what is durable.
func (w *world) boot() {
	w.held, w.connection = nil, 0
	loop, actions := New(Config{Timeout: time.Second, Period: 10 * time.Second, Grace: 30 * time.Second, Notice: time.Second, Interval: time.Second, Seen: true, Clock: true},
		Start{}, w.engine(), w.now)
	w.loop = loop
	w.carryOut(actions)
}

func (w *world) engine() Engine { return Engine{State: w.state, Version: w.version} }

// apply makes a state durable.
func (w *world) apply(s *node.State) { w.state, w.version = s, w.version+1 }

// step is one event.
func (w *world) step(of Occurrence) any {
	e := Event{Engine: w.engine(), Of: of, Request: 1}
	before := ""
	if w.steps++; w.steps%w.looks == 0 {
		before = dump(w.loop)
	}
	loop, actions := Step(w.loop, e, w.now)
	if before != "" {
		w.goBack(e, before, loop, actions)
	}
	w.loop, w.reply = loop, nil
	w.carryOut(actions)
	return w.reply
}

// goBack checks that a Step has not changed the loop that it was given, and that a Step from the
// same loop gives the same again, whatever came of the first one.
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
			w.reply = a.Reply
		case Wake:
			w.wake = a.At
		case Publish:
			w.status = a.Status
		case Drop:
			w.apply(w.state.Release(a.UID))
		case HangUp:
			if a.Connection == w.connection {
				w.held = append(w.held, a)
			}
		case Update, Job:
			w.held = append(w.held, a)
		}
	}
}

// goOn carries out what was held back, and what follows from it.
func (w *world) goOn() {
	for range 100 {
		if w.holds || len(w.held) == 0 {
			return
		}
		a := w.held[0]
		w.held = w.held[1:]
		switch a := a.(type) {
		case Update:
			w.land(a)
		case Job:
			w.step(Done{a.Name, w.work(a.Of)})
		case HangUp:
			w.disconnect()
			w.connect()
		}
	}
	w.errs = append(w.errs, "the loop does not come to rest")
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

// work is a job without any time.
func (w *world) work(a Action) Occurrence {
	switch a := a.(type) {
	case Write:
		return Written{Releases: a.Releases}
	case ListPods:
		return Listed{Of: w.listing(a.Traces)}
	case LatestPods:
		latest := map[string]Latest{}
		for uid, pod := range w.listed {
			latest[uid] = Latest{Pod: pod}
		}
		return LatestListed{latest}
	case Adopt:
		w.adopt(a.Boxes)
		return Adopted{}
	case Read:
		w.read(a.Sights)
		return Saw{Sights: a.Sights, Push: true}
	case Inspect:
		return Inspected{Of: a, Seen: w.seen()}
	case Follow:
		for _, pod := range a.Pods {
			_ = w.decideResize(pod, false) // The kubelet carried it out already: no request waits for a rejection.
		}
		return Followed{Of: a}
	case Prove:
		return Proven{Of: a, Wrong: w.prove(a.Proofs)}
	case EndMove:
		w.apply(w.state.EndMove(a.UID, a.Done))
		return MoveWritten{Of: a}
	case SetQuotas, KeepAlive:
	}
	return nil
}

func (w *world) listing(traces map[string]Trace) Listing {
	gone := map[string]bool{}
	for uid := range traces {
		gone[uid] = w.listed[uid].UID == ""
	}
	return Listing{Pods: maps.Clone(w.listed), Traces: traces, Gone: gone}
}

func (w *world) read(sights []Sight) {
	for i := range sights {
		if r := w.running[sights[i].ID]; r != nil {
			sights[i].Setting = r.setting
		} else {
			sights[i].Absent = true
		}
	}
}

func (w *world) seen() (seen []Seen) {
	for _, id := range slices.Sorted(maps.Keys(w.running)) {
		if r := w.running[id]; r.begun {
			seen = append(seen, Seen{Who: "default/" + r.pod, Path: id, Observed: converge.Observed{ID: id, Pod: r.pod, Container: r.name, Setting: r.setting}})
		}
	}
	return seen
}

func (w *world) prove(proofs []Proof) error {
	for _, at := range proofs {
		if r := w.running[at.ID]; r != nil && !Fulfils(r.setting, at.Want) {
			return fmt.Errorf("container %s runs on %s", at.Container, r.setting.CPUs)
		}
	}
	return nil
}

// update makes updates, except those that are lost, and returns the containers of those.
func (w *world) update(hook string, updates []converge.Update) (failed []string) {
	for _, u := range updates {
		r := w.running[u.ID]
		if r == nil {
			continue
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

func (w *world) observe(kind sim.Kind, hook string, r *running, s converge.Setting) {
	w.checker.Observe(sim.Event{Kind: kind, ID: r.id, Pod: r.pod, Container: r.name, Hook: hook, Setting: s})
}

// wait lets time pass, with all timers in it.
func (w *world) wait(d time.Duration) {
	for end := w.now.Add(d); ; {
		w.goOn()
		if w.wake.IsZero() || w.wake.After(end) {
			w.now = end
			return
		}
		if w.wake.After(w.now) {
			w.now = w.wake
		}
		w.step(Timer{})
	}
}

// where is a line for each container: where it runs, and what the loop knows.
func (w *world) where() []string {
	lines := slices.Clone(w.errs)
	w.errs = nil
	for _, id := range slices.Sorted(maps.Keys(w.running)) {
		r := w.running[id]
		lines = append(lines, fmt.Sprintf("%s/%s on CPUs %s (%s)", r.pod, r.name, r.setting.CPUs, phaseOf(&w.loop, id)))
	}
	for _, m := range w.status.Moving {
		lines = append(lines, fmt.Sprintf("%s is being moved: %s", m.UID, m.Step))
	}
	if err := w.checker.Err(); err != nil {
		lines = append(lines, "broken: "+err.Error())
	}
	return lines
}

func phaseOf(l *Loop, id string) string {
	if c := l.containers.get(id); c != nil {
		return c.phase.known().String()
	}
	return "not known"
}

// dump is everything that a loop has, as text.
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
		fmt.Fprintf(&b, "%s %+v", uid, p)
		if m != nil {
			fmt.Fprintf(&b, " move %d: %s since %v, due %v, retry %v, ending %t", m.number, m.step, m.since, m.due, m.retry, m.ending)
		}
		b.WriteString("\n")
	}
	for _, uid := range l.boxes.keys() {
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
	fmt.Fprintln(&b, l.link, l.gone.len(), l.differing.len(), l.jobs.keys(), l.number, l.steps, l.moves, l.due, l.wake, l.shown, l.room != nil)
	return b.String()
}
