package nri_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/runtime/nri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a node of eight CPUs, four on each of two NUMA nodes, two threads a core: a runtime that does what
// containerd does, its pods, and an agent that can be taken away. CPU 0 is reserved.
type bench struct {
	ctx    context.Context
	plugin *nri.Plugin
	engine *engine.Engine
	disk   *node.State // what a new agent starts from
	policy node.Policy
	clock  time.Time
	config func(*nri.Config)

	source  map[string]request.Pod // what the kubelet lists
	hidden  map[string]request.Pod // what it does not, though they run
	deaf    error                  // why it does not
	slow    time.Duration          // how long asking it takes
	looked  int
	planned int
	runs    map[string]*running // the runtime's containers, by id
	boxes   map[string]*api.PodSandbox
	quotas  map[string]bool // cgroups that have one
	link    *link
	lastID  int
	// lose tells which of the updates that may fail get lost; nil: none.
	lose func(*api.ContainerUpdate) bool
	// fail makes the first creation fail after the reply, and between happens before a reply is carried
	// out; nil: neither.
	fail     func() bool
	between  func()
	wrong    error // the first promise that was broken
	said     strings.Builder
	observed observed
}

// running is a container that runs.
type running struct {
	c       *api.Container
	setting converge.Setting
}

type observed struct {
	hooks    map[string]int
	asked    []time.Duration
	away     time.Duration
	repaired int
}

func (o *observed) Hook(name string, _ time.Duration, _ error) { o.hooks[name]++ }
func (o *observed) Asked(took time.Duration)                   { o.asked = append(o.asked, took) }
func (o *observed) Connected(bool)                             {}
func (o *observed) Away(d time.Duration)                       { o.away += d }
func (o *observed) Repaired(n int)                             { o.repaired += n }

// newBench is a node whose agent is there and synchronised.
func newBench(ctx context.Context, change ...func(*nri.Config)) *bench {
	b := &bench{
		ctx:    ctx,
		source: map[string]request.Pod{}, hidden: map[string]request.Pod{}, runs: map[string]*running{}, boxes: map[string]*api.PodSandbox{}, quotas: map[string]bool{},
		observed: observed{hooks: map[string]int{}}, clock: time.Unix(1_800_000_000, 0),
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
	var d machine.Description
	for n := range 2 {
		nd := machine.NodeDescription{ID: n, Memory: 2 << 30, HugePages: []machine.HugePages{{SizeKiB: 2 << 10, Count: 64}}}
		for core := range 2 {
			first := 4*n + 2*core
			nd.Cores = append(nd.Cores, machine.CoreDescription{Threads: []int{first, first + 1}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, nd)
	}
	m, err := machine.New(d)
	if err != nil {
		panic(err)
	}
	return m
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
	if b.disk != nil {
		grants, generation = b.disk.Grants(), b.disk.Generation()
	}
	s, _, err := node.Adopt(m, b.policy, inventory, grants)
	if err != nil {
		panic(err)
	}
	log := slog.New(slog.NewTextHandler(&b.said, nil))
	b.engine = engine.New(s.Resume(generation), engine.Config{
		Store: store{b}, Observer: decisions{b}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return b.clock },
		Encode: func(s *node.State) ([]byte, error) { b.disk = s; return nil, nil },
	})
	c := nri.Config{
		Engine: b.engine, Pods: pods{b}, Cgroups: cgroups{b}, Observer: &b.observed, Log: log,
		Now: func() time.Time { return b.clock }, After: time.After, Dial: func(*nri.Plugin) (nri.Link, error) { return b.link, nil },
		Socket: "/run/nri.sock", Timeout: time.Second, Period: 10 * time.Second, Grace: 30 * time.Second, Fresh: b.disk == nil,
	}
	b.config(&c)
	b.plugin = nri.New(c)
}

type store struct{ *bench }

func (store) Write([]byte) error { return nil }

// decisions counts what the engine was asked.
type decisions struct{ *bench }

func (d decisions) Decided(engine.Decision) { d.planned++ }
func (decisions) Wrote(engine.Write)        {}
func (decisions) Released(string)           {}

// pods is nri.Pods.
type pods struct{ *bench }

var errUnlisted = errors.New("not listed")

func (p pods) Lookup(_ context.Context, uid string) (request.Pod, error) {
	p.looked++
	p.clock = p.clock.Add(p.slow)
	if pod, there := p.source[uid]; there && p.deaf == nil {
		return pod, nil
	}
	return request.Pod{}, errors.Join(errUnlisted, p.deaf)
}

func (p pods) List(context.Context) (map[string]request.Pod, error) {
	if p.deaf != nil {
		return nil, p.deaf
	}
	return maps.Clone(p.source), nil
}

// cgroups is nri.Cgroups.
type cgroups struct{ *bench }

func (c cgroups) Read(path string) (converge.Setting, error) {
	for _, r := range c.runs {
		if r.c.GetLinux().GetCgroupsPath() == path {
			return r.setting, nil
		}
	}
	return converge.Setting{}, fs.ErrNotExist
}

func (c cgroups) LiftQuota(path string) (bool, error) {
	had, there := c.quotas[path]
	if !there {
		return false, fs.ErrNotExist
	}
	c.quotas[path] = false
	return had, nil
}

// link is a connection. Updates are made at once unless the test holds them.
type link struct {
	*bench
	ctx    context.Context
	cancel context.CancelFunc
	up     chan struct{}
	ended  chan struct{}
	hold   chan struct{} // nil: updates are made at once
	sent   int
}

func (l *link) Run(ctx context.Context) error {
	close(l.up)
	select {
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return errors.New("connection closed")
}

func (l *link) UpdateContainers(updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	l.sent++
	if l.hold != nil {
		<-l.hold
	}
	l.apply(updates)
	return nil, nil
}

func (l *link) RuntimeNRIVersion() string { return "v0.12.3" }

// connect lets the plugin serve a connection, and the runtime synchronise it.
func (b *bench) connect() {
	b.link = &link{bench: b, up: make(chan struct{}), ended: make(chan struct{})}
	b.link.ctx, b.link.cancel = context.WithCancel(b.ctx)
	go func(l *link) {
		defer close(l.ended)
		_, _ = b.plugin.Serve(l.ctx)
	}(b.link)
	<-b.link.up
	_, err := b.plugin.Configure(b.ctx, "", "containerd", "2.4.2+unknown")
	b.broke(err)
	var boxes []*api.PodSandbox
	var containers []*api.Container
	for _, id := range slices.Sorted(maps.Keys(b.boxes)) {
		boxes = append(boxes, b.boxes[id])
	}
	for _, id := range slices.Sorted(maps.Keys(b.runs)) {
		r := b.runs[id]
		r.c.Linux.Resources = resources(r.setting)
		containers = append(containers, r.c)
	}
	updates, err := b.plugin.Synchronize(b.ctx, boxes, containers)
	b.broke(err)
	b.apply(updates)
	if b.plugin.Ready() == nil {
		b.noMoreThan(nil)
	}
}

// disconnect ends the connection.
func (b *bench) disconnect() {
	if b.link != nil {
		b.link.cancel()
		<-b.link.ended
		b.link = nil
	}
}

func (b *bench) broke(err error) {
	if b.wrong == nil {
		b.wrong = err
	}
}

// resources are a setting as a runtime shows it.
func resources(s converge.Setting) *api.LinuxResources {
	cpu := &api.LinuxCPU{Cpus: s.CPUs.String(), Mems: cpuset.Of(s.Mems.Nodes()...).String(), Quota: api.Int64(int64(200000))}
	if s.LiftQuota {
		cpu.Quota = api.Int64(int64(-1))
	}
	return &api.LinuxResources{Cpu: cpu}
}

// set changes a setting as the runtime does: what is empty means no change.
func (b *bench) set(s converge.Setting, r *api.LinuxResources) converge.Setting {
	cpus, err := cpuset.Parse(r.GetCpu().GetCpus())
	mems, err2 := cpuset.Parse(r.GetCpu().GetMems())
	if err = errors.Join(err, err2); err != nil {
		b.broke(err)
	}
	if cpus.IsEmpty() && mems.IsEmpty() || cpus.IsEmpty() && b.policy.StaticCPU {
		b.broke(fmt.Errorf("an empty cpuset was sent: %v", r))
	}
	if !cpus.IsEmpty() {
		s.CPUs = cpus
	}
	if !mems.IsEmpty() {
		s.Mems = mask.Of(mems.IDs()...)
	}
	if q := r.GetCpu().GetQuota(); q != nil {
		s.LiftQuota = q.GetValue() < 0
	}
	return s
}

// apply makes updates in their order, and holds each of them to the promises.
func (b *bench) apply(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		if u.GetIgnoreFailure() && b.lose != nil && b.lose(u) {
			continue
		}
		if r := b.runs[u.GetContainerId()]; r != nil {
			before := b.overlaps()
			r.setting = b.set(r.setting, u.GetLinux().GetResources())
			b.noMoreThan(before)
		}
	}
}

// overlaps are the containers that run on CPUs that another one has for its own, or another pod for its pool.
func (b *bench) overlaps() map[[2]string]bool {
	found := map[[2]string]bool{}
	if b.link == nil {
		return found
	}
	s := b.engine.State()
	for id, r := range b.runs {
		g, known := s.Grant(b.boxes[r.c.GetPodSandboxId()].GetUid())
		if !known {
			continue
		}
		_, i := g.Pod.Container(r.c.GetName())
		if i < 0 || g.Isolation(i) == node.HostIsolation {
			continue
		}
		for other, o := range b.runs {
			pooled := g.Isolation(i) == node.PodIsolation && b.boxes[o.c.GetPodSandboxId()].GetUid() == g.Pod.UID
			if other != id && !pooled && o.everywhere().Intersects(r.everywhere()) {
				found[[2]string{id, other}] = true
			}
		}
	}
	return found
}

// everywhere is where a container runs, without a cpuset too.
func (r *running) everywhere() cpuset.Set {
	if r.setting.CPUs.IsEmpty() {
		return cpuset.Range(0, 7)
	}
	return r.setting.CPUs
}

// noMoreThan holds that nobody overlaps who did not.
func (b *bench) noMoreThan(before map[[2]string]bool) {
	for pair := range b.overlaps() {
		if !before[pair] {
			b.broke(fmt.Errorf("%s has CPUs for its own, and %s runs on some of them: %v", pair[0], pair[1], b.shown()))
		}
	}
}

// shown are what containers run on, by pod/name.
func (b *bench) shown() map[string]string {
	out := map[string]string{}
	for _, r := range b.runs {
		quota := ""
		if r.setting.LiftQuota {
			quota = " no quota"
		}
		out[b.boxes[r.c.GetPodSandboxId()].GetUid()+"/"+r.c.GetName()] = fmt.Sprintf("%s on %s%s", r.setting.CPUs, r.setting.Mems, quota)
	}
	return out
}

// check ends a test.
func (b *bench) check(t *testing.T) {
	t.Helper()
	b.disconnect()
	if b.wrong != nil {
		t.Error(b.wrong)
	}
}
