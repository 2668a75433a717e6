package sim_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/node/store"
)

type calamity int

const (
	diskStalls calamity = iota
	diskFails
	listSlow
	listFails
	kubeletRestarts
	updateHangs
	updateHangsLong
	updateUnanswered
	updateFails
	updateLost
	updateLate
	questionSlow
	replySlow
	requestFails
	droppedBefore
	droppedAfter
	synchronizeLost
	creationFails
	creationSlow
	startFails
	agentKilled
	runsUnlisted
	calamities
)

var calamityNames = [calamities]string{
	"the disk stalls for 1 to 10 s", "the disk fails", "the kubelet's list is slow", "the kubelet's list fails", "the kubelet restarts and lists nothing",
	"an update hangs for less than 10 s", "an update hangs for 10 to 40 s", "the answer to an update takes 10 to 40 s", "an update fails", "an update is lost",
	"an update arrives late", "a question is slow", "a reply is slow", "a request fails", "the connection ends before an answer",
	"the connection ends after an answer", "the reply to Synchronize is lost", "a creation fails after the reply", "a creation is slow", "a start fails or is slow",
	"the agent is killed and restarted", "a pod runs unlisted and is listed later",
}

func (c calamity) String() string { return calamityNames[c] }

// storm is a fault that affects the next steps of its kind, up to a number of times, while it
// lasts.
type storm struct {
	kind      calamity
	at, lasts time.Duration
	size      int // 0 to 99
	left      int
	raging    bool
}

// part maps the storm's size to a duration between from and to.
func (s *storm) part(from, to time.Duration) time.Duration {
	return from + (to-from)*time.Duration(s.size)/99
}

// weather starts a storm and ends it.
func (o *ordeal) weather(s *storm) {
	time.Sleep(s.at) //nolint:forbidigo // The clock is the bubble's.
	uid := fmt.Sprint("p", s.size%8)
	switch s.kind {
	case agentKilled:
		o.lifecycle <- struct{}{}
		defer func() { <-o.lifecycle }()
		o.mark(agentKilled)
		o.kill()
		time.Sleep(s.lasts - time.Second) //nolint:forbidigo // The clock is the bubble's.
		o.start()
		return
	case runsUnlisted: // The pod starts while the agent is away, and is not listed when the agent is back.
		o.hide(uid, 1)
		defer o.hide(uid, -1)
		o.lifecycle <- struct{}{}
		o.kill()
		o.follow([]string{uid})
		time.Sleep(time.Second) //nolint:forbidigo // The clock is the bubble's.
		o.follow(nil, exclusive(uid, 1+s.size%2))
		time.Sleep(time.Second) //nolint:forbidigo // The clock is the bubble's.
		o.start()
		<-o.lifecycle
	default:
		o.rage(s, true)
		defer o.rage(s, false)
	}
	time.Sleep(s.lasts) //nolint:forbidigo // The clock is the bubble's.
}

func (o *ordeal) rage(s *storm, raging bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.raging = raging
	if s.kind == kubeletRestarts {
		o.kubeletSince, o.kubeletRuns = time.Now(), o.kubeletRuns+1
	}
}

func (o *ordeal) hide(uid string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hidden[uid] += n
}

func (o *ordeal) mark(c calamity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.struck[c] = true
}

// strike returns an active storm of one of the given kinds and counts its use. It returns nil if
// there is none. The caller has locked mu.
func (o *ordeal) strike(kinds ...calamity) *storm {
	for i := range o.storms {
		s := &o.storms[i]
		if !s.raging || s.left == 0 {
			continue
		}
		for _, k := range kinds {
			if s.kind == k {
				s.left--
				o.struck[k] = true
				fmt.Fprintf(&o.said, "%8.3f --- %s\n", time.Since(o.begin).Seconds(), k)
				return s
			}
		}
	}
	return nil
}

// fault implements sim.Config.Fault.
func (o *ordeal) fault(s sim.Step) sim.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	var f sim.Fault
	if storm := o.strike(possible(s)...); storm != nil {
		f = storm.fault()
	}
	if f.Drop {
		o.synced = false
	} else if s.Point == sim.Answered && s.Hook == "Synchronize" && f.Err == nil {
		o.synced = o.open
	}
	return f
}

// possible returns the faults that can affect a step.
func possible(s sim.Step) []calamity {
	const unsolicited, synchronize = "UpdateContainers", "Synchronize"
	switch s.Point {
	case sim.Registered:
		return []calamity{droppedBefore}
	case sim.Asking:
		if s.Hook == unsolicited {
			return []calamity{updateLate, droppedBefore}
		}
		return []calamity{questionSlow, droppedBefore, requestFails}
	case sim.Answered:
		switch s.Hook {
		case unsolicited:
			return []calamity{updateUnanswered, droppedAfter}
		case synchronize:
			return []calamity{synchronizeLost, replySlow}
		}
		return []calamity{replySlow, droppedAfter}
	case sim.Storing:
		return []calamity{creationFails, creationSlow}
	case sim.Starting:
		return []calamity{startFails}
	case sim.Updating:
		if s.Hook == unsolicited {
			return []calamity{updateFails, updateLost, updateHangs, updateHangsLong}
		}
		return []calamity{updateFails, updateLost, updateHangs}
	case sim.Listing:
		return []calamity{listSlow, listFails}
	}
	return nil
}

// fault returns the effect of the storm on a step.
func (s *storm) fault() sim.Fault {
	switch s.kind {
	case listSlow:
		return sim.Fault{Delay: s.part(200*time.Millisecond, 5*time.Second)}
	case updateHangs, updateLate:
		return sim.Fault{Delay: s.part(100*time.Millisecond, 9*time.Second)}
	case updateHangsLong, updateUnanswered:
		return sim.Fault{Delay: s.part(10*time.Second, 40*time.Second)}
	case updateLost:
		return sim.Fault{Lose: true}
	case questionSlow, replySlow, creationSlow:
		return sim.Fault{Delay: s.part(50*time.Millisecond, 4*time.Second)}
	case droppedBefore, droppedAfter:
		return sim.Fault{Drop: true}
	case synchronizeLost:
		return sim.Fault{Drop: true, Err: errTorn}
	case startFails:
		if s.size%2 == 0 {
			return sim.Fault{Delay: s.part(50*time.Millisecond, 4*time.Second)}
		}
		return sim.Fault{Err: errTorn}
	case listFails, updateFails, requestFails, creationFails:
		return sim.Fault{Err: errTorn}
	case diskStalls, diskFails, kubeletRestarts, agentKilled, runsUnlisted, calamities: // These affect other parts.
	}
	return sim.Fault{}
}

// disk is the state that survives the agent.
type disk struct {
	mu    sync.Mutex
	state *node.State
}

func (d *disk) set(s *node.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
}

func (d *disk) get() *node.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// agent is one run of the agent's process. It is its engine's store, its plugin's source of pods
// and its observer.
type agent struct {
	ignore
	*ordeal
	engine  *engine.Engine
	plugin  *nri.Plugin
	encoded *node.State
	dead    chan struct{}
	gone    chan struct{} // closed when the plugin has ended
	stop    context.CancelFunc
	link    atomic.Pointer[link]

	lists   sync.Mutex
	tracker absence.Tracker
}

// start runs an agent with the state on disk.
func (o *ordeal) start() {
	a := &agent{ordeal: o, dead: make(chan struct{}), gone: make(chan struct{})}
	encode := func(s *node.State) ([]byte, error) {
		a.encoded = s
		return nil, nil
	}
	kept := promise.New(time.Now)
	a.engine = engine.New(o.disk.get(), engine.Config{
		Store: written{a}, Encode: encode, Now: time.Now, Observer: a, Log: o.log,
		Reserve: func(s *node.State) *node.State { return s.WithReservations(kept.Reservations()) },
	})
	c := nri.Config{
		Engine: a.engine, Pods: a, Cgroups: o.runtime.Cgroups(), Observer: a, Log: o.log, Now: time.Now, After: time.After, Dial: a.dial,
		Socket: "in memory", Timeout: answerWithin, Period: 10 * time.Second, Grace: 30 * time.Second, TakeOver: true,
		Moves: nri.MovesConfig{Notice: 500 * time.Millisecond, Interval: 5 * time.Second, Promises: kept, Observer: a},
	}
	if o.verifies {
		c.Seen = seen(o.runtime)
	}
	if o.estimate {
		c.Estimate = func(err error) bool { return errors.Is(err, sim.ErrUnknownPod) }
	}
	a.plugin = nri.New(c)
	ctx, stop := context.WithCancel(o.ctx)
	a.stop = stop
	o.agent.Store(a)
	o.group.Go(func() {
		defer close(a.gone)
		_ = a.plugin.Run(ctx)
	})
}

// kill ends the agent as SIGKILL does: state that is not written is lost.
func (o *ordeal) kill() {
	a := o.agent.Load()
	close(a.dead)
	if l := a.link.Load(); l != nil {
		_ = l.Close() // It may be closed already.
	}
	a.stop()
	<-a.gone
}

// Wrote implements engine.Observer.
func (a *agent) Wrote(engine.Write) {}

// Resized implements engine.ResizeObserver. It checks that a container that grows keeps all its
// CPUs, that one that shrinks gets no other CPUs, and that each has the CPUs of its admission.
func (a *agent) Resized(d engine.Decision) {
	a.mu.Lock()
	if d.Plan.Rejection != nil {
		a.notResized++
	} else if d.Err == nil {
		a.resized++
	}
	a.mu.Unlock()
	if d.Plan.Rejection != nil || d.Plan.Before == nil {
		return
	}
	for i := range d.Plan.Grant.Containers {
		was, now := d.Plan.Before.Containers[i].CPUs, d.Plan.Grant.Containers[i].CPUs
		base, has := d.Plan.Before.BaselineOf(i), d.Plan.Grant.BaselineOf(i)
		if !was.Contains(now) && !now.Contains(was) || !base.Equal(has) || !now.Contains(base) {
			a.fail(fmt.Errorf("%s/%s had %s, baseline %s, and has %s, baseline %s", d.Plan.Pod.UID, d.Plan.Pod.Containers[i].Name, was, base, now, has))
		}
	}
}

// Hook implements nri.Observer.
func (a *agent) Hook(name string, took time.Duration, err error) {
	if took > answerWithin {
		a.fail(fmt.Errorf("%s is answered after %v: %w", name, took, err))
	}
}

// Write writes to the log of the ordeal. It overrides ignore's Write.
func (a *agent) Write(p []byte) (int, error) { return a.ordeal.Write(p) }

// written is the agent's disk.
type written struct{ *agent }

// Write records the encoded state.
func (w written) Write([]byte) error {
	w.mu.Lock()
	stall, failure := w.strike(diskStalls), w.strike(diskFails)
	w.mu.Unlock()
	if stall != nil {
		if stall.size%2 == 0 { // The disk has the state and does not report it.
			_ = w.commit() // No caller learns of it.
		}
		select {
		case <-time.After(stall.part(time.Second, 10*time.Second)):
		case <-w.dead:
		}
	}
	if failure == nil {
		return w.commit()
	}
	switch failure.size % 3 {
	case 0:
		return errTorn
	case 1:
		if err := w.commit(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUncertain, errTorn)
}

// commit makes the encoded state the one with which the next agent starts, unless this agent is
// dead.
func (w written) commit() error {
	select {
	case <-w.dead:
		return errTorn
	default:
	}
	w.disk.set(w.encoded)
	return nil
}

// link is the agent's end of a connection.
type link struct {
	*sim.Link
	*ordeal
}

func (a *agent) dial(handler any) (nri.Link, error) {
	select {
	case <-a.dead:
		return nil, errTorn
	default:
	}
	l, err := a.runtime.Dial(handler, "paddock", "90")
	if err != nil {
		return nil, err
	}
	mine := &link{l, a.ordeal}
	a.link.Store(mine)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.synced = true, false
	return mine, nil
}

// Run implements nri.Link. The runtime may close only the connection of a plugin that did not
// answer.
func (l *link) Run(ctx context.Context) error {
	err := l.Link.Run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.synced && l.broken == nil && ctx.Err() == nil {
		l.broken = fmt.Errorf("the runtime closed the connection: %w", err)
	}
	l.synced = false
	return err
}

// Close closes the connection on behalf of the plugin.
func (l *link) Close() error {
	l.mu.Lock()
	l.open, l.synced = false, false
	l.mu.Unlock()
	return l.Link.Close()
}

// Lookup implements nri.Pods.
func (a *agent) Lookup(ctx context.Context, uid string) (request.Pod, error) {
	pods, err := a.List(ctx)
	if err != nil {
		return request.Pod{}, err
	}
	pod, there := pods[uid]
	if !there {
		return request.Pod{}, fmt.Errorf("pod with uid %s: %w", uid, sim.ErrUnknownPod)
	}
	return pod, nil
}

// List implements nri.Pods. Besides the pods of the history there is one that never starts, because
// a kubelet that knows its pods lists some.
func (a *agent) List(ctx context.Context) (map[string]request.Pod, error) {
	asked := time.Now()
	pods, err := a.kubelet.List(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	for uid, n := range a.hidden {
		if n > 0 {
			delete(pods, uid)
		}
	}
	process, empty := absence.Process{Number: a.kubeletRuns, Since: a.kubeletSince}, a.forgetful()
	a.mu.Unlock()
	listed := map[string]absence.Source{"other": absence.FromAPI}
	if empty {
		clear(pods)
		clear(listed)
	}
	for uid := range pods {
		listed[uid] = absence.FromAPI
	}
	a.lists.Lock()
	defer a.lists.Unlock()
	a.tracker.Observe(absence.List{Asked: asked, Process: process, Pods: listed})
	return pods, nil
}

// Latest implements nri.Pods. Like a list, it omits the pods that are hidden.
func (a *agent) Latest(uid string) (request.Pod, string, bool) {
	a.mu.Lock()
	hidden := a.hidden[uid] > 0 || a.forgetful()
	a.mu.Unlock()
	if hidden {
		return request.Pod{}, "", false
	}
	return a.kubelet.Latest(uid)
}

// forgetful reports whether the kubelet has just started. The caller has locked mu.
func (o *ordeal) forgetful() bool {
	for i := range o.storms {
		if o.storms[i].kind == kubeletRestarts && o.storms[i].raging {
			o.struck[kubeletRestarts] = true
			return true
		}
	}
	return false
}

// Gone implements nri.Pods.
func (a *agent) Gone(uid string, trace absence.Trace) bool {
	a.lists.Lock()
	defer a.lists.Unlock()
	return a.tracker.Gone(uid, trace)
}
