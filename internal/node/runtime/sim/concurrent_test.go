package sim_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// answerWithin is Config.Timeout of the plugin in these histories.
const answerWithin = time.Second

// history is a sequence of events on a node. The acts follow each other, and none waits for the end
// of the one before. The storms come at their own times.
type history struct {
	// required makes the runtime create no container without the plugin. old is a runtime that
	// accepts no unsolicited updates. crio is a runtime that is synchronised while it creates
	// containers. estimate makes the plugin read requests from cgroup numbers. dynamic is a policy
	// that aligns pods and moves them. verifies makes the plugin compare by itself what runs.
	required, old, crio, estimate, dynamic, verifies bool
	acts                                             []act
	storms                                           []storm
}

// frequent lists the kinds of storms, each as often as it takes to strike in one of twenty
// histories. The storms of updates that the plugin sends by itself wait for such an update.
var frequent = []calamity{
	updateHangs, updateHangsLong, updateUnanswered, updateFails, updateLost, updateLate, updateHangs, updateHangsLong, updateUnanswered, updateLate,
	updateHangsLong, updateUnanswered, updateLate, synchronizeLost, creationFails, creationSlow, startFails, startFails, agentKilled, runsUnlisted,
	diskStalls, diskFails, listSlow, listFails, listFails, kubeletRestarts, questionSlow, replySlow, requestFails, requestFails, droppedBefore, droppedAfter,
	diskStalls, diskFails, listSlow, kubeletRestarts, synchronizeLost, droppedAfter,
}

// briefly is the number of histories that are run if no number of checks is given.
const briefly = 40

func histories() *rapid.Generator[history] {
	acts := rapid.Custom(func(t *rapid.T) act {
		return act{
			what: rapid.IntRange(0, 16).Draw(t, "what"), pod: rapid.IntRange(0, 7).Draw(t, "pod"), cpus: rapid.IntRange(0, 3).Draw(t, "CPUs"),
			after: time.Duration(rapid.IntRange(0, 3000).Draw(t, "milliseconds")) * time.Millisecond,
		}
	})
	storms := rapid.Custom(func(t *rapid.T) storm {
		return storm{
			kind: rapid.SampledFrom(frequent).Draw(t, "kind"), size: rapid.IntRange(0, 99).Draw(t, "size"),
			at:    time.Duration(rapid.IntRange(0, 30_000).Draw(t, "at")) * time.Millisecond,
			lasts: time.Duration(rapid.IntRange(1000, 20_000).Draw(t, "lasts")) * time.Millisecond,
			left:  rapid.IntRange(1, 6).Draw(t, "times"),
		}
	})
	return rapid.Custom(func(t *rapid.T) history {
		return history{
			required: rapid.IntRange(0, 2).Draw(t, "required") == 2, old: rapid.IntRange(0, 4).Draw(t, "old") == 4,
			crio: rapid.IntRange(0, 3).Draw(t, "CRI-O") == 3, verifies: rapid.Bool().Draw(t, "verifies"),
			estimate: rapid.IntRange(0, 3).Draw(t, "estimate") == 3, dynamic: rapid.Bool().Draw(t, "dynamic"),
			acts: rapid.SliceOfN(acts, 10, 40).Draw(t, "acts"), storms: rapid.SliceOfN(storms, 4, 12).Draw(t, "storms"),
		}
	})
}

// TestConcurrentHistories: many pods come and go at once, while the disk, the kubelet, the runtime,
// the connection and the agent itself fail. These invariants are checked:
//
//   - After every message, no container is on CPUs that another one owns according to the messages
//     so far.
//   - Every request is answered in time.
//   - No container is created without its CPUs while the plugin is connected, or at all if the
//     plugin is required.
//   - When all faults are over, everything runs as the state has it, and pods that are gone have no
//     grant.
func TestConcurrentHistories(t *testing.T) {
	var mix mix
	checks := flag.Lookup("rapid.checks")
	brief := checks.Value.String() == checks.DefValue
	rapid.Check(t, func(rt *rapid.T) {
		if brief && mix.histories == briefly {
			return
		}
		h := histories().Draw(rt, "history")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			o := newOrdeal(t.Context(), h)
			defer o.close()
			o.live(t.Context())
			if failure = o.judge(); failure != nil {
				failure = fmt.Errorf("%w\n%s", failure, o.account())
			}
			mix.add(o)
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
	mix.print(t)
}

// mix counts the histories in which each fault struck.
type mix struct {
	histories, required, old, crio, estimate, dynamic, verifies, events int
	resized, notResized, moved, notMoved                                int
	struck                                                              [calamities]int
}

func (m *mix) add(o *ordeal) {
	m.histories++
	m.events += o.checker.Events()
	m.resized, m.notResized = m.resized+o.resized, m.notResized+o.notResized
	m.moved, m.notMoved = m.moved+o.moved, m.notMoved+o.notMoved
	for _, n := range []struct {
		is    bool
		count *int
	}{{o.required, &m.required}, {o.old, &m.old}, {o.crio, &m.crio}, {o.estimate, &m.estimate}, {o.dynamic, &m.dynamic}, {o.verifies, &m.verifies}} {
		if n.is {
			*n.count++
		}
	}
	for k, struck := range o.struck {
		if struck {
			m.struck[k]++
		}
	}
}

func (m *mix) print(t *testing.T) {
	t.Helper()
	var b strings.Builder
	line := func(what string, n int) {
		fmt.Fprintf(&b, "\n%5.1f %%  %s", 100*float64(n)/float64(max(m.histories, 1)), what)
	}
	for k, n := range m.struck {
		line(calamity(k).String(), n)
	}
	t.Logf("%d resizes were made, %d rejected", m.resized, m.notResized)
	t.Logf("%d moves were made, %d given up", m.moved, m.notMoved)
	line("the plugin is required", m.required)
	line("the runtime takes no unsolicited updates", m.old)
	line("the runtime is CRI-O", m.crio)
	line("the plugin verifies", m.verifies)
	line("requests are estimated", m.estimate)
	line("the policy moves pods", m.dynamic)
	t.Logf("%d histories, %d events; of the histories in which a fault struck:%s", m.histories, m.events, &b)
}

// ordeal is a node on which a history happens. It must run in a bubble of testing/synctest.
type ordeal struct {
	history
	ctx     context.Context
	end     context.CancelFunc
	begin   time.Time
	group   sync.WaitGroup
	log     *slog.Logger
	runtime *sim.Runtime
	kubelet *sim.Kubelet
	checker *simtest.Checker
	disk    disk
	agent   atomic.Pointer[agent]
	// lifecycle is taken by the goroutine that kills or starts the agent. It is a channel because
	// time does not pass in a bubble while a goroutine waits for a mutex.
	lifecycle chan struct{}

	mu     sync.Mutex
	hidden map[string]int // the number of storms that hide a pod from the kubelet's list, by UID
	struck [calamities]bool
	// open is true until the plugin closes its connection. synced is true if the runtime asks the
	// plugin, so that a container can start without it only if the plugin itself does not answer.
	open, synced bool
	broken       error
	said         strings.Builder
	events       []string
	pods         []request.Pod
	// resized and notResized count the decisions about resizes. moved and notMoved count the moves
	// that have ended.
	resized, notResized int
	moved, notMoved     int
	// kubeletRuns numbers the runs of the kubelet. The present run began at kubeletSince.
	kubeletRuns  uint64
	kubeletSince time.Time
}

func newOrdeal(ctx context.Context, h history) *ordeal {
	o := &ordeal{history: h, begin: time.Now(), kubeletSince: time.Now().Add(-time.Hour), hidden: map[string]int{}, lifecycle: make(chan struct{}, 1)}
	o.ctx, o.end = context.WithCancel(ctx)
	o.log = slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Duration("at", a.Value.Time().Sub(o.begin))
		}
		return a
	}}))
	if o.disk.state = newEngine().State(); h.dynamic {
		o.disk.state = aligning()
	}
	o.checker = simtest.NewChecker(func() *node.State { return o.agent.Load().engine.State() })
	o.checker.ListsLate = h.crio
	c := sim.Config{Now: time.Now, After: time.After, Fault: o.fault, Observe: o.observe}
	if h.required {
		c.Required = []string{"paddock"}
	}
	if h.old {
		c.Name, c.Version, c.NRIVersion, c.SilentPods, c.UnknownPods = "containerd", "2.1.4", "v0.8.0", true, true
	}
	if h.crio {
		c = simtest.CRIO(c)
	}
	o.runtime = sim.New(o.ctx, c)
	o.kubelet = o.runtime.NewKubelet(sim.KubeletConfig{Log: o.log})
	o.start()
	o.group.Go(func() { _ = o.kubelet.Run(o.ctx) })
	return o
}

// live plays the history from its begin until everything had time to settle.
func (o *ordeal) live(ctx context.Context) {
	o.kubelet.Follow(nil, nil)
	if err := o.runtime.Await(ctx); err != nil {
		o.fail(err)
	}
	o.mu.Lock()
	o.begin = time.Now()
	o.mu.Unlock()
	var storms, acts sync.WaitGroup
	for i := range o.storms {
		storms.Go(func() { o.weather(&o.storms[i]) })
	}
	for _, a := range o.acts {
		o.act(a, &acts)
		time.Sleep(a.after) //nolint:forbidigo // The clock is the bubble's.
	}
	storms.Wait()
	o.mu.Lock()
	o.storms = nil
	o.mu.Unlock()
	acts.Wait()
	wait(5 * time.Minute)
	if o.old || o.crio { // Updates that failed repeatedly wait for about five minutes.
		wait(6 * time.Minute)
	}
}

// act starts one act of the history, and does not wait for its end.
func (o *ordeal) act(a act, group *sync.WaitGroup) {
	uid, name := fmt.Sprint("p", a.pod), "app"
	if a.cpus%2 == 1 {
		name = "web"
	}
	shape := func(i, cpus int) request.Pod {
		if cpus == 0 {
			return sharing(fmt.Sprint("p", i))
		}
		return o.exclusive(fmt.Sprint("p", i), cpus)
	}
	switch a.what {
	case 0, 1:
		o.follow(nil, shape(a.pod, a.cpus))
	case 2:
		o.follow([]string{uid})
	case 3: // many pods at once
		o.follow([]string{uid}, shape((a.pod+1)%8, a.cpus), shape((a.pod+2)%8, 0), shape((a.pod+3)%8, 1), shape((a.pod+4)%8, 0))
	case 15, 16:
		group.Go(func() { o.carry(uid) })
	case 4, 5:
		group.Go(func() { _ = o.kubelet.RestartContainer(o.ctx, uid, name) })
	case 6:
		group.Go(func() { _ = o.kubelet.RestartPod(o.ctx, uid) })
	case 7:
		o.runtime.LoseNextUpdate(uid, name)
	case 8:
		_ = o.runtime.Drift(uid, name, setting("7"))
	case 9:
		o.mu.Lock()
		o.synced = false
		o.mu.Unlock()
		o.runtime.Disconnect()
	case 11, 12, 13, 14:
		o.resize(uid, 1+a.cpus)
	case 10:
		for _, c := range o.runtime.Observe() {
			if c.Pod == uid {
				group.Go(func() {
					_ = o.runtime.UpdateContainer(o.ctx, c.ID, sim.Resources{Shares: 512, Quota: 50_000, Period: 100_000})
				})
			}
		}
	}
}

// resize changes the number of CPUs of a pod with CPUs of its own.
func (o *ordeal) resize(uid string, cpus int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pods := slices.Clone(o.pods)
	for i := range pods {
		if pods[i].UID == uid && pods[i].QoS == request.Guaranteed {
			pods[i] = o.exclusive(uid, cpus)
		}
	}
	o.pods = pods
	o.kubelet.Follow(pods, nil)
}

// follow ends some pods and adds those that do not exist.
func (o *ordeal) follow(gone []string, more ...request.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	there := map[string]bool{}
	var pods []request.Pod
	for _, uid := range gone {
		there[uid] = true
	}
	for _, p := range o.pods {
		if !there[p.UID] {
			pods = append(pods, p)
		}
	}
	for _, p := range pods {
		there[p.UID] = true
	}
	for _, p := range more {
		if !there[p.UID] {
			pods = append(pods, p)
		}
	}
	o.pods = pods
	o.kubelet.Follow(pods, nil)
}

// observe implements sim.Config.Observe.
func (o *ordeal) observe(e sim.Event) {
	o.checker.Observe(e)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf("%8.3f %d %s/%s (%s) %s %s", time.Since(o.begin).Seconds(), e.Sequence, e.Pod, e.Container, e.ID, e, e.Hook))
	broken := ""
	switch {
	case e.Kind == sim.Replied && e.Hook == "" && o.required:
		broken = "it is created although the plugin is required and did not answer"
	case e.Kind == sim.Replied && e.Hook == "" && o.synced:
		broken = "it is created without the plugin, which was connected"
	case e.Kind == sim.Replied && e.Hook == "" && o.hidden[e.Pod] > 0:
		o.struck[runsUnlisted] = true
	case e.Kind == sim.Replied && e.Hook != "" && e.Setting.CPUs.IsEmpty():
		broken = "the plugin gave it no CPUs"
	case e.Hook == "UpdateContainers" && (o.old || o.crio):
		broken = "the runtime does not stand unsolicited updates"
	}
	if broken != "" && o.broken == nil {
		o.broken = fmt.Errorf("event %d, %s of %s/%s: %s", e.Sequence, e.Kind, e.Pod, e.Container, broken)
	}
}

// fail records an error if it is the first.
func (o *ordeal) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.broken = err
	}
}

// judge returns the errors in the final state.
func (o *ordeal) judge() error {
	s := o.agent.Load().engine.Snapshot()
	errs := []error{o.checker.Err(), simtest.AtRest(s.State, o.runtime.Observe()), o.agent.Load().plugin.Ready()}
	o.mu.Lock()
	errs = append(errs, o.broken)
	wanted := map[string]bool{}
	for _, p := range o.pods {
		wanted[p.UID] = true
	}
	o.mu.Unlock()
	if len(s.Pending)+len(s.Unreleased) > 0 {
		errs = append(errs, fmt.Errorf("%d grants are pending, %v are not released", len(s.Pending), s.Unreleased))
	}
	for _, g := range s.State.Grants() {
		if g.Moving != nil {
			errs = append(errs, fmt.Errorf("pod %s is still being moved from %s to %s", g.Pod.UID, g.CPUs(), g.Moving.CPUs()))
		}
		if !wanted[g.Pod.UID] {
			errs = append(errs, fmt.Errorf("pod %s is gone and has %s", g.Pod.UID, g.Pool))
		}
	}
	errs = append(errs, o.agent.Load().plugin.Status().Verified())
	for uid := range o.agent.Load().plugin.Status().Unenforced {
		errs = append(errs, fmt.Errorf("pod %s is not known to run on its CPUs", uid))
	}
	for _, p := range o.kubelet.Status() {
		g, admitted := s.State.Grant(p.Pod.UID)
		plan := o.agent.Load().engine.Preview(engine.Candidate{Pod: p.Pod}).Plan
		fits := plan.Rejection == nil
		switch {
		case p.Ending:
			errs = append(errs, fmt.Errorf("pod %s still ends: %w", p.Pod.UID, p.Err))
		case admitted && p.Running && !g.Pod.Estimated && !g.Pod.Equal(p.Pod) && s.State.Resize(p.Pod.UID, p.Pod).Rejection == nil:
			errs = append(errs, fmt.Errorf("pod %s can be resized, and was not: it has %s: %w", p.Pod.UID, g.CPUs(), p.Err))
		case fits && !(p.Running && admitted):
			errs = append(errs, fmt.Errorf("pod %s fits: running %t, admitted %t, %w", p.Pod.UID, p.Running, admitted, p.Err))
		}
	}
	if len(o.agent.Load().plugin.Status().Moving) == 0 {
		for _, err := range o.tryMoves("") {
			if err != nil && strings.Contains(err.Error(), "other moves are under way") {
				errs = append(errs, fmt.Errorf("no pod is being moved: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// account returns the whole history as text, for a failure.
func (o *ordeal) account() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("required %t, old %t, CRI-O %t, estimate %t, dynamic %t, verifies %t\nevents:\n%s\nlog:\n%s", o.required, o.old, o.crio, o.estimate, o.dynamic, o.verifies, strings.Join(o.events, "\n"), o.said.String())
}

// Write implements the log's writer.
func (o *ordeal) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.Write(p)
}

func (o *ordeal) close() {
	o.kill()
	o.end()
	o.runtime.Close()
	o.group.Wait()
}

var _ nri.Observer = (*agent)(nil)
