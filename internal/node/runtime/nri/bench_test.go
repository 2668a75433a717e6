package nri_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a node with eight CPUs, four on each of two NUMA nodes, two threads a core. It has a
// runtime that behaves as containerd does, pods, and an agent that can be taken away. CPU 0 is
// reserved.
type bench struct {
	ctx    context.Context
	plugin *driver
	engine *engine.Engine
	// disk is the state from which a new agent starts. The engine writes it in its own goroutine.
	// Writes of an agent that has ended are lost.
	disk   atomic.Pointer[node.State]
	alive  atomic.Pointer[atomic.Bool]
	policy node.Policy
	clock  *clock
	now    func() time.Time // the plugin's clock
	config func(*nri.Config)
	// texts maps pods to the grants with which their sandboxes come. plan is the engine's planner.
	// If nil, there are no grants, and the engine's default planner is used.
	texts map[string]string
	plan  func(*node.State, engine.Candidate) (*node.Plan, *handover.Outcome)
	// cut is the number of writes of the state and unsolicited updates after which the agent dies:
	// nothing that it does later has an effect. Zero means that it does not die.
	cut  atomic.Int64
	busy error // the error of every unsolicited update
	// moves configures the agent's moves. kept has the promises of the present agent. If nil, it
	// makes no promises.
	moves nri.MovesConfig
	kept  *kept

	source  map[string]request.Pod // the pods that the kubelet lists
	hidden  map[string]request.Pod // the pods that run although the kubelet does not list them
	pending map[string]string      // the reason why the kubelet does not apply the request of a pod
	// unseen is the error of listing what runs. unreadable is the error of reading cgroups.
	unseen, unreadable error
	// deleted are the UIDs of the pods that the kubelet lists as being deleted.
	deleted map[string]bool
	// runtime, release and nri are the name of the runtime and its versions. If empty, they are
	// those of containerd 2.4.2. events are those of which the plugin wants to be told; 0: all that
	// it handles.
	runtime, release, nri string
	events                api.EventMask
	// deafToPods is set if the runtime does not forward UpdatePodSandbox.
	deafToPods bool
	// open is the reply that the runtime is applying.
	open []*api.ContainerUpdate
	// broken is the error of the kubelet's next update of a container. If nil, it succeeds.
	broken     error
	deaf       error         // why the kubelet does not answer
	listing    error         // why it does not list pods, although it knows each of them
	slow       time.Duration // how long a request to it takes
	looked     int
	planned    int
	plans      atomic.Int64        // counts the plans of pods
	mu         sync.Mutex          // guards what the agent's jobs access: runs and quotas
	runs       map[string]*running // the runtime's containers, by ID
	boxes      map[string]*api.PodSandbox
	quotas     map[string]bool               // cgroups that exist, and whether they have a quota
	pages      map[string]map[int]int64      // the memory of cgroups, by NUMA node
	unwritable error                         // the error of each write of a cgroup, if not nil
	inner      map[string]cpuset.Set         // the CPUs of a cgroup inside of those that have the name in their path
	stall      atomic.Pointer[chan struct{}] // what a write waits for; nil: it does not wait
	full       atomic.Bool                   // every write fails
	writes     atomic.Int64
	// If slowKubelet is set, the kubelet never answers. old runtimes take no unsolicited updates.
	// lost makes the runtime lose replies.
	slowKubelet time.Duration
	hurry       time.Duration // how long the runtime waits for an answer; 0: 2 s
	old, lost   bool
	link        *link
	linked      atomic.Bool // there is a link
	lastID      int
	// lose reports which of the updates that may fail are lost. If nil, none is.
	lose func(*api.ContainerUpdate) bool
	// fail reports whether a creation fails after the reply. between runs before a reply is
	// applied. If nil, neither happens.
	fail     func() bool
	between  func()
	wrong    error // the first invariant that was violated
	said     journal
	observed observed
}

// driver is a plugin, its loop, and the requests that the runtime sends on its connection.
type driver struct {
	*nri.Plugin
	handler
	stop func()
}

// handler has the requests of a runtime, as the stub serves them.
type handler interface {
	Configure(ctx context.Context, config, runtime, version string) (api.EventMask, error)
	Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error)
	RunPodSandbox(context.Context, *api.PodSandbox) error
	UpdatePodSandbox(context.Context, *api.PodSandbox, *api.LinuxResources, *api.LinuxResources) error
	StopPodSandbox(context.Context, *api.PodSandbox) error
	RemovePodSandbox(context.Context, *api.PodSandbox) error
	CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error)
	PostCreateContainer(context.Context, *api.PodSandbox, *api.Container) error
	StartContainer(context.Context, *api.PodSandbox, *api.Container) error
	PostStartContainer(context.Context, *api.PodSandbox, *api.Container) error
	UpdateContainer(context.Context, *api.PodSandbox, *api.Container, *api.LinuxResources) ([]*api.ContainerUpdate, error)
	StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error)
	RemoveContainer(context.Context, *api.PodSandbox, *api.Container) error
}

// clock is a clock that advances only by pass.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(1_800_000_000, c.passed.Load()) }
func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// never is the After of agents whose rounds are started by the test.
func never(time.Duration) <-chan time.Time { return nil }

type running struct {
	c       *api.Container
	setting converge.Setting
}

// journal is the log of the agent. A test may read it while the agent runs.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

type observed struct {
	mu       sync.Mutex
	hooks    map[string]int
	asked    []time.Duration
	away     time.Duration
	repaired int
	// slow lists the events that took long. unverified and unsettled are the last numbers that were
	// reported.
	slow       []string
	unverified int
	unsettled  atomic.Int64
}

func (o *observed) Hook(name string, _ time.Duration, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hooks[name]++
}

func (o *observed) Asked(took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, took)
}
func (o *observed) Connected(bool)       {}
func (o *observed) Away(d time.Duration) { o.away += d }
func (o *observed) Repaired(n int)       { o.repaired += n }
func (o *observed) Vetoes(bool)          {}

func (o *observed) Slow(event string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slow = append(o.slow, event)
}

func (o *observed) Unsettled(n int) { o.unsettled.Store(int64(n)) }

func (o *observed) Unverified(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unverified = n
}

// newBench returns a node. start starts its agent.
func newBench(ctx context.Context, change ...func(*nri.Config)) *bench {
	b := &bench{
		ctx:    ctx,
		source: map[string]request.Pod{}, hidden: map[string]request.Pod{}, pending: map[string]string{}, runs: map[string]*running{}, boxes: map[string]*api.PodSandbox{}, quotas: map[string]bool{},
		observed: observed{hooks: map[string]int{}}, clock: &clock{},
		policy: node.Policy{
			Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true,
			StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 256 << 20}}, PodLevelResources: true, PodLevelManagers: true,
		},
	}
	b.config = func(c *nri.Config) {
		for _, f := range change {
			f(c)
		}
	}
	return b
}

func eightCPUs() *machine.Machine {
	return scenario.Machine("numa=2 cores=2 threads=2 numbering=adjacent memory=2Gi hugepages-2Mi=64")
}

// start starts an agent with the state that the last one left, and connects it.
func (b *bench) start() {
	b.boot()
	b.connect()
}

// boot starts an agent without a connection.
func (b *bench) boot() {
	m := eightCPUs()
	inventory, err := device.NewInventory(m, nil)
	if err != nil {
		panic(err)
	}
	var grants []*node.Grant
	var generation uint64
	b.halt()
	alive := b.replaceAgent()
	disk := b.disk.Load()
	if disk != nil {
		grants, generation = disk.Grants(), disk.Generation()
	}
	s, _, err := node.Adopt(m, b.policy, inventory, grants)
	if err != nil {
		panic(err)
	}
	log := slog.New(slog.NewTextHandler(&b.said, nil))
	b.engine = engine.New(s.Resume(generation), engine.Config{
		Store: store{b}, Observer: decisions{b}, Log: slog.New(slog.DiscardHandler), Now: b.clock.now, Plan: b.countedPlan, Reserve: b.reserve(),
		Encode: func(s *node.State) ([]byte, error) {
			if alive.Load() {
				b.disk.Store(s)
				b.counts(alive)
			}
			return nil, nil
		},
	})
	c := nri.Config{
		Engine: b.engine, Pods: pods{b}, Cgroups: cgroups{b}, Observer: &b.observed, Log: log,
		Now: b.clock.now, After: never,
		Dial: func(h any) (nri.Link, error) {
			requests, ok := h.(handler)
			if !ok {
				return nil, errors.New("it does not answer what a runtime asks")
			}
			b.plugin.handler = requests
			return b.link, nil
		},
		Socket: "/run/nri.sock", Timeout: time.Second, Period: 10 * time.Second, Grace: 30 * time.Second, Fresh: disk == nil, Moves: b.moves,
	}
	b.config(&c)
	b.now = c.Now
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan struct{})
	b.plugin = &driver{Plugin: nri.New(c), stop: func() { cancel(); <-ended }}
	if c.Dial == nil {
		close(ended)
		return // Run has a loop of its own.
	}
	go func(p *driver) {
		defer close(ended)
		_ = p.Loop(ctx)
	}(b.plugin)
}

// counts records a write or an update of an agent. It reports whether the agent was alive until
// then.
func (b *bench) counts(agent *atomic.Bool) bool {
	alive := agent.Load()
	if alive && b.cut.Load() > 0 && b.cut.Add(-1) == 0 {
		agent.Store(false)
	}
	return alive
}

// replaceAgent ends the effects of the last agent. It returns the flag of the next one.
func (b *bench) replaceAgent() *atomic.Bool {
	next := &atomic.Bool{}
	next.Store(true)
	if last := b.alive.Swap(next); last != nil {
		last.Store(false)
	}
	return next
}

// countedPlan implements engine.Config.Plan and counts its calls.
func (b *bench) countedPlan(s *node.State, c engine.Candidate) (*node.Plan, *handover.Outcome) {
	b.plans.Add(1)
	if b.plan != nil {
		return b.plan(s, c)
	}
	return s.Plan(c.Pod), nil
}

// reserve returns engine.Config.Reserve. Promises exist only under the policy dynamic.
func (b *bench) reserve() func(*node.State) *node.State {
	if b.policy.Moves.Pods == 0 {
		return nil
	}
	b.kept = &kept{Keeper: promise.New(func() time.Time { return b.now() })}
	b.moves.Promises = b.kept
	keeper := b.kept.Keeper
	return func(s *node.State) *node.State { return s.WithReservations(keeper.Reservations()) }
}

// kept is a keeper of promises that exposes the last promise.
type kept struct {
	*promise.Keeper
	mu    sync.Mutex
	uid   string // empty: there is no promise
	place cpuset.Set
	until time.Time
}

func (k *kept) Keep(uid string, place *node.Grant, moved []*node.Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uid, k.place, k.until = uid, place.CPUs(), time.Time{}
	k.Keeper.Keep(uid, place, moved)
}

func (k *kept) Until(uid string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uid == uid {
		k.until = at
	}
	k.Keeper.Until(uid, at)
}

func (k *kept) Drop(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uid == uid {
		k.uid = ""
	}
	k.Keeper.Drop(uid)
}

// promised returns the pod that has a promise at that time and no grant, and its CPUs. uid is empty
// if there is no such pod.
func (k *kept) promised(s *node.State, at time.Time) (uid string, place cpuset.Set) {
	if k == nil {
		return "", cpuset.Set{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := s.Grant(k.uid); there || k.uid == "" || !k.until.IsZero() && !at.Before(k.until) {
		return "", cpuset.Set{}
	}
	return k.uid, k.place
}

// halt ends the loop of an agent.
func (b *bench) halt() {
	if b.plugin != nil {
		b.plugin.stop()
	}
}

type store struct{ *bench }

func (s store) Write([]byte) error {
	if stall := s.stall.Load(); stall != nil {
		<-*stall
	}
	s.writes.Add(1)
	if s.full.Load() {
		return errors.New("no space left on device")
	}
	return nil
}

// decisions counts the decisions of the engine.
type decisions struct{ *bench }

func (d decisions) Decided(engine.Decision) { d.planned++ }
func (decisions) Wrote(engine.Write)        {}
func (decisions) Released(string)           {}

// pods implements nri.Pods.
type pods struct{ *bench }

var errUnlisted = errors.New("not listed")

func (p pods) Lookup(ctx context.Context, uid string) (request.Pod, error) {
	if p.slowKubelet > 0 {
		<-ctx.Done()
		return request.Pod{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked++
	p.clock.pass(p.slow)
	if pod, there := p.source[uid]; there && p.deaf == nil {
		return pod, nil
	}
	return request.Pod{}, errors.Join(errUnlisted, p.deaf)
}

func (p pods) List(context.Context) (map[string]request.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := errors.Join(p.deaf, p.listing); err != nil {
		return nil, err
	}
	return maps.Clone(p.source), nil
}

func (p pods) Latest(uid string) (request.Pod, string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod, there := p.source[uid]
	return pod, p.pending[uid], there
}

// Gone behaves like a kubelet that has run for a long time: a pod that it does not list is gone at
// once, or after 30 s if the pod has a sandbox.
func (p pods) Gone(uid string, trace absence.Trace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.source[uid]
	return !there && (!trace.Sandbox || p.now().Sub(trace.Since) >= 30*time.Second)
}
