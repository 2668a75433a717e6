package nri_test

import (
	"context"
	"errors"
	"io/fs"
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

// bench is a node of eight CPUs, four on each of two NUMA nodes, two threads a core: a runtime that
// does what containerd does, its pods, and an agent that can be taken away. CPU 0 is reserved.
type bench struct {
	ctx    context.Context
	plugin *driver
	engine *engine.Engine
	// disk is what a new agent starts from. The engine writes it in a goroutine of its own; what an
	// agent that ended writes later is lost.
	disk   atomic.Pointer[node.State]
	alive  atomic.Pointer[atomic.Bool]
	policy node.Policy
	clock  *clock
	now    func() time.Time // the plugin's
	config func(*nri.Config)
	// texts are the grants that sandboxes come with, plan is the engine's planner; nil: none.
	texts map[string]string
	plan  func(*node.State, engine.Candidate) (*node.Plan, *handover.Outcome)
	// cut is after how many writes of the state and unsolicited updates the agent dies: nothing
	// that it does later has an effect; 0: it does not.
	cut  atomic.Int64
	busy error // of every unsolicited update
	// moves is what the agent does about moves, kept are the promises of the present agent; nil: it
	// makes none.
	moves nri.MovesConfig
	kept  *kept

	source  map[string]request.Pod // what the kubelet lists
	hidden  map[string]request.Pod // what it does not, though they run
	pending map[string]string      // why it does not carry out what pods ask for
	// unseen and unreadable are why what runs cannot be listed, and why cgroups cannot be read.
	unseen, unreadable error
	// runtime is its name; empty: containerd.
	runtime string
	// deafToPods runtimes do not forward UpdatePodSandbox.
	deafToPods bool
	// open is the reply that the runtime carries out.
	open []*api.ContainerUpdate
	// broken is the error of the next update of a container by the kubelet; nil: there is none.
	broken  error
	deaf    error         // why it does not
	listing error         // why it does not list pods, although it knows each
	slow    time.Duration // how long asking it takes
	looked  int
	planned int
	plans   atomic.Int64        // how often a pod was planned
	mu      sync.Mutex          // of what the agent's jobs reach: runs and quotas
	runs    map[string]*running // the runtime's containers, by id
	boxes   map[string]*api.PodSandbox
	quotas  map[string]bool               // cgroups that have one
	pages   map[string]map[int]int64      // the memory of cgroups
	stall   atomic.Pointer[chan struct{}] // what a write waits for; nil: nothing
	full    atomic.Bool                   // every write fails
	writes  atomic.Int64
	// slowKubelet never answers if it is set; old runtimes take no unsolicited updates; lost loses
	// replies.
	slowKubelet time.Duration
	hurry       time.Duration // how long the runtime waits for an answer; 0: 2 s
	old, lost   bool
	link        *link
	linked      atomic.Bool // there is a link
	lastID      int
	// lose tells which of the updates that may fail get lost; nil: none.
	lose func(*api.ContainerUpdate) bool
	// fail makes the first creation fail after the reply, and between happens before a reply is
	// carried out; nil: neither.
	fail     func() bool
	between  func()
	wrong    error // the first promise that was broken
	said     journal
	observed observed
}

// driver is a plugin with its loop, and the requests that the runtime makes of its connection.
type driver struct {
	*nri.Plugin
	handler
	stop func()
}

// handler are the requests of a runtime, as the stub serves them.
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

// clock stands still unless it is told to pass.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(1_800_000_000, c.passed.Load()) }
func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// never is for agents whose rounds a test makes.
func never(time.Duration) <-chan time.Time { return nil }

// running is a container that runs.
type running struct {
	c       *api.Container
	setting converge.Setting
}

// journal is what the agent logs. A test reads it while the agent runs.
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
	// slow are the events that took long, unverified is the last number.
	slow       []string
	unverified int
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

func (o *observed) Unverified(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unverified = n
}

// newBench is a node whose agent is there and synchronised.
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

// start starts an agent on what the last one left, and connects it.
func (b *bench) start() {
	b.boot()
	b.connect()
}

// boot starts an agent without connection.
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

// counts notes a write or an update of an agent. It reports whether the agent lives until then.
func (b *bench) counts(agent *atomic.Bool) bool {
	alive := agent.Load()
	if alive && b.cut.Load() > 0 && b.cut.Add(-1) == 0 {
		agent.Store(false)
	}
	return alive
}

// replaceAgent ends the effects of the last agent. The flag is of the next one.
func (b *bench) replaceAgent() *atomic.Bool {
	next := &atomic.Bool{}
	next.Store(true)
	if last := b.alive.Swap(next); last != nil {
		last.Store(false)
	}
	return next
}

// countedPlan is engine.Config.Plan, and counts its calls.
func (b *bench) countedPlan(s *node.State, c engine.Candidate) (*node.Plan, *handover.Outcome) {
	b.plans.Add(1)
	if b.plan != nil {
		return b.plan(s, c)
	}
	return s.Plan(c.Pod), nil
}

// reserve is engine.Config.Reserve: under the policy dynamic there are promises.
func (b *bench) reserve() func(*node.State) *node.State {
	if b.policy.Moves.Pods == 0 {
		return nil
	}
	b.kept = &kept{Keeper: promise.New(func() time.Time { return b.now() })}
	b.moves.Promises = b.kept
	keeper := b.kept.Keeper
	return func(s *node.State) *node.State { return s.WithReservations(keeper.Reservations()) }
}

// kept is a keeper of promises that shows the last one.
type kept struct {
	*promise.Keeper
	mu    sync.Mutex
	uid   string // empty: there is none
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

// promised are the CPUs of the pod that has a promise at that time and is not there; empty: none
// has.
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

// decisions counts what the engine was asked.
type decisions struct{ *bench }

func (d decisions) Decided(engine.Decision) { d.planned++ }
func (decisions) Wrote(engine.Write)        {}
func (decisions) Released(string)           {}

// pods is nri.Pods.
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

// Gone is of a kubelet that has run for long: what it does not list is gone at once, with a sandbox
// after a while.
func (p pods) Gone(uid string, trace absence.Trace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.source[uid]
	return !there && (!trace.Sandbox || p.now().Sub(trace.Since) >= 30*time.Second)
}

// cgroups is nri.Cgroups.
type cgroups struct{ *bench }

func (c cgroups) Read(path string) (converge.Setting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		if r.c.GetLinux().GetCgroupsPath() == path {
			return r.setting, nil
		}
	}
	return converge.Setting{}, fs.ErrNotExist
}

// Pages are those that a test has set; nil: none.
func (c cgroups) Pages(path string) (map[int]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages[path], nil
}

func (c cgroups) SetQuota(path string, want node.Quota) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, there := c.quotas[path]
	if !there {
		return false, fs.ErrNotExist
	}
	c.quotas[path] = want != node.NoQuota
	return had != c.quotas[path], nil
}
