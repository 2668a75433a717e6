package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// plugged is a file system with sixteen CPUs on two NUMA nodes, with two threads per core (N and
// N+8). Some of the CPUs are online. It counts how often the machine is discovered.
type plugged struct {
	mu         sync.Mutex
	files      fstest.MapFS
	discovered int
}

func (p *plugged) Open(name string) (fs.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "proc/meminfo" {
		p.discovered++
	}
	return p.files.Open(name)
}

// count returns how often the machine was discovered since the last call.
func (p *plugged) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.discovered
	p.discovered = 0
	return n
}

// set sets the mask, and the CPUs that have a topology.
func (p *plugged) set(mask, topology string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	files := fstest.MapFS{}
	put := func(path, text string) { files[path] = &fstest.MapFile{Data: []byte(text + "\n")} }
	put("proc/meminfo", "MemTotal: 16777216 kB")
	if mask != "" {
		put("sys/devices/system/cpu/online", mask)
		put("sys/devices/system/cpu/present", "0-15")
	}
	for id := range 2 {
		put(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", id), fmt.Sprintf("Node %d MemTotal: 8388608 kB", id))
	}
	cpus, err := cpuset.Parse(topology)
	if err != nil {
		panic(err)
	}
	for id := range 16 {
		for _, dir := range []string{fmt.Sprintf("sys/devices/system/cpu/cpu%d/", id), fmt.Sprintf("sys/devices/system/node/node%d/cpu%d/", id%8/4, id)} {
			put(dir+"uevent", "")
			if cpus.Has(id) {
				put(dir+"topology/core_id", fmt.Sprint(id%4))
				put(dir+"topology/physical_package_id", fmt.Sprint(id%8/4))
			}
		}
	}
	p.files = files
}

// rebased is an engine whose next Rebase may fail.
type rebased struct {
	mu    sync.Mutex
	state *node.State
	fail  error
}

func (r *rebased) State() *node.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// failing makes every Rebase fail with err, or succeed if err is nil.
func (r *rebased) failing(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *rebased) Rebase(_ context.Context, change func(*node.State) (*node.State, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	next, err := change(r.state)
	if err == nil {
		r.state = next
	}
	return err
}

// watched is a hotplug in a synctest bubble, in which nothing takes real time.
type watched struct {
	*hotplug
	t      *testing.T
	sys    *plugged
	engine *rebased
	book   *logbook
	kicks  int
	ended  chan error
}

// watch starts a hotplug on a node with two pods. Pod "own" has CPUs 1 and 9. In pod "pool", the
// container "own" has CPUs 2 and 10, and "log" shares CPUs 3 and 11. CPU 0 is reserved.
func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, sys: &plugged{}, engine: &rebased{}, book: &logbook{}, ended: make(chan error, 1)}
	w.sys.set("0-15", "0-15")
	found, err := discover.Live(w.sys)
	if err != nil {
		t.Fatal(err)
	}
	w.engine.state = twoPods(t, found.Machine)
	log, err := telemetry.NewLogger(w.book, telemetry.FormatJSON, slog.LevelDebug)
	if err != nil {
		t.Fatal(err)
	}
	w.hotplug = newHotplug(w.engine, w.sys, found.Machine, func() { w.kicks++ }, &telemetry.Operations{}, log)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { w.ended <- w.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	synctest.Wait()
	w.sys.count()
	return w
}

func twoPods(t *testing.T, m *machine.Machine) *node.State {
	t.Helper()
	s, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []request.Pod{
		{Identity: request.Identity{UID: "own", Namespace: "default", Name: "own"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 2}}}},
		{
			Identity: request.Identity{UID: "pool", Namespace: "default", Name: "pool"}, Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 4, BudgetCPUMilli: 4000,
				Containers: []request.Container{{Name: "own", Type: request.App, CPUs: 2, Equivalent: true}, {Name: "log", Type: request.App}},
			},
		},
	} {
		plan := s.Plan(pod)
		if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatal(err, plan.Rejection)
		}
	}
	return s
}

// expect lets a little more than a period pass. It then compares the online CPUs, the CPUs of the
// containers, and the log.
func (w *watched) expect(online, cgroups string, logged ...string) {
	w.t.Helper()
	<-time.After(onlinePeriod + time.Millisecond)
	synctest.Wait()
	s := w.engine.State()
	same(w.t, "online", s.Machine().AllCPUs().String(), online)
	var words []string
	for _, g := range s.Grants() {
		for i, c := range g.Pod.Containers {
			cpus, _ := s.Cgroup(g, i)
			words = append(words, g.Pod.Name+"/"+c.Name+"="+cpus.String())
		}
	}
	same(w.t, "cgroups", strings.Join(words, " "), cgroups)
	text := w.book.take()
	contains(w.t, "log", text, logged...)
	if len(logged) == 0 && text != "" {
		w.t.Errorf("logged without a reason:\n%s", text)
	}
	if err := s.Check(); err != nil {
		w.t.Error(err)
	}
}

const usualCgroups = "own/c=1,9 pool/own=2,10 pool/log=3,11"

func TestHotplugFollowsCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		before := w.engine.State().Grants()
		w.expect("0-15", usualCgroups)
		w.sys.set("0-7,10-15", "0-7,10-15")
		w.expect("0-7,10-15", "own/c=1 pool/own=2,10 pool/log=3,11", `"msg":"CPUs went offline","cpus":"8-9"`,
			`"msg":"pod is degraded: some of its CPUs are offline","pod":"default/own","uid":"own","offline":"9","displaced":""`)
		w.expect("0-7,10-15", "own/c=1 pool/own=2,10 pool/log=3,11")
		if perCore := w.engine.State().Machine().CPUsPerCore(); perCore != 2 {
			t.Errorf("%d CPUs a core, want 2: CPUs 8 and 9 are offline, not gone", perCore)
		}
		w.sys.set("0-2,4-7,10,12-15", "0-2,4-7,10,12-15")
		w.expect("0-2,4-7,10,12-15", "own/c=1 pool/own=2,10 pool/log=0,4-7,12-15", `"cpus":"3,11"`, `"pod":"default/pool","uid":"pool","offline":"3,11","displaced":"log 0,4-7,12-15"`)
		w.sys.set("0-15", "0-15")
		w.expect("0-15", usualCgroups, `"msg":"CPUs came online","cpus":"3,8-9,11"`, `"msg":"pod has all its CPUs again","pod":"default/own"`, `"msg":"pod has all its CPUs again","pod":"default/pool"`)
		for i, g := range w.engine.State().Grants() {
			if g != before[i] {
				t.Errorf("the grant of %s changed", g.Pod.Name)
			}
		}
		if discovered := w.sys.count(); w.kicks != 3 || discovered != 3 {
			t.Errorf("the machine was read %d times and containers were updated %d times, want 3 of each", discovered, w.kicks)
		}
	})
}

func TestHotplugOfAReservedCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.sys.set("1-15", "1-15")
		w.expect("1-15", usualCgroups, `"msg":"reserved CPUs are offline; they stay reserved","cpus":"0"`)
		same(t, "shared pool", w.engine.State().SharedCPUs().String(), "4-8,12-15")
		w.sys.set("0-15", "0-15")
		w.expect("0-15", usualCgroups, "CPUs came online")
		same(t, "shared pool", w.engine.State().SharedCPUs().String(), "0,4-8,12-15")
	})
}

// TestHotplugOfALateTopology checks that a CPU that is in the mask before it has a topology is used
// once it has one. The machine is not discovered forever for a CPU that never gets one.
func TestHotplugOfALateTopology(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.sys.set("0-14", "0-14")
		w.expect("0-14", usualCgroups, "CPUs went offline")
		w.sys.set("0-15", "0-14")
		w.expect("0-14", usualCgroups)
		w.expect("0-14", usualCgroups)
		w.sys.set("0-15", "0-15")
		w.expect("0-15", usualCgroups, `"msg":"CPUs came online","cpus":"15"`)

		w.sys.set("0-14", "0-14")
		w.expect("0-14", usualCgroups, "CPUs went offline")
		w.sys.set("0-15", "0-14")
		w.sys.count()
		<-time.After(time.Hour)
		w.expect("0-14", usualCgroups, `"level":"WARN","msg":"CPUs are online but cannot be used`, `"cpus":"15"`)
		if discovered := w.sys.count(); discovered != mostTries {
			t.Errorf("the machine was read %d times in an hour, want %d", discovered, mostTries)
		}
		w.sys.set("0-13", "0-13")
		w.expect("0-13", usualCgroups, `"msg":"CPUs went offline","cpus":"14"`)
	})
}

// TestHotplugAfterAFault checks that reading and rebasing are tried again until they succeed, and
// that a failure is logged once.
func TestHotplugAfterAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.sys.set("zero", "0-15")
		w.expect("0-15", usualCgroups, `"level":"ERROR"`, "/sys/devices/system/cpu/online")
		w.expect("0-15", usualCgroups)
		w.sys.set("0-14", "")
		w.expect("0-15", usualCgroups, "CPUs 0-14 are online, but the machine cannot be read")
		w.expect("0-15", usualCgroups)
		<-time.After(time.Minute)
		w.engine.failing(errors.New("not now"))
		w.sys.set("0-14", "0-14")
		w.expect("0-15", usualCgroups, "not now")
		w.expect("0-15", usualCgroups)
		w.engine.failing(nil)
		w.expect("0-14", usualCgroups, "CPUs went offline")
	})
}

// TestHotplugSinceTheStart checks that changes between the start and the first look are found,
// including CPUs that were offline at the start.
func TestHotplugSinceTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &plugged{}
		sys.set("0-7", "0-7")
		found, err := discover.Live(sys)
		if err != nil {
			t.Fatal(err)
		}
		e := &rebased{state: twoPods(t, found.Machine)}
		sys.set("0-15", "0-15")
		h := newHotplug(e, sys, found.Machine, nil, &telemetry.Operations{}, slog.New(slog.DiscardHandler))
		if err := h.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "online", e.State().Machine().AllCPUs().String(), "0-15")
		sys.set("0-8", "0-8")
		if err := h.look(t.Context()); err != nil || e.State().Machine().CPUsPerCore() != 2 {
			t.Errorf("%d CPUs a core, want 2: %v", e.State().Machine().CPUsPerCore(), err)
		}
	})
}

// TestHotplugWithoutTheCaches checks that a resctrl that cannot be read is an error only where
// containers can have classes.
func TestHotplugWithoutTheCaches(t *testing.T) {
	sys := &plugged{}
	sys.set("0-15", "0-15")
	found, err := discover.Live(sys)
	if err != nil {
		t.Fatal(err)
	}
	sys.files["sys/fs/resctrl/info/L3/cbm_mask"] = &fstest.MapFile{Data: []byte("ways\n")}
	for divides, want := range map[bool]bool{false: true, true: false} {
		start := found.Machine
		if divides {
			start, err = machine.New(machine.Description{
				Caches: machine.Caches{Classes: 4, Ways: 12, LeastWays: 1}, Nodes: []machine.NodeDescription{{Cores: []machine.CoreDescription{{Threads: []int{0}}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		h := newHotplug(&rebased{}, sys, start, nil, &telemetry.Operations{}, slog.New(slog.DiscardHandler))
		if m, err := h.discover(); (m != nil) != want || (err == nil) != want {
			t.Errorf("a machine that divides caches: %v: %v, %v", divides, m, err)
		}
	}
}

// TestHotplugWithoutAMask checks that the agent keeps running on a kernel that does not report the
// mask.
func TestHotplugWithoutAMask(t *testing.T) {
	sys := &plugged{}
	sys.set("", "0-15")
	found, err := discover.Live(sys)
	if err != nil {
		t.Fatal(err)
	}
	h := newHotplug(&rebased{state: twoPods(t, found.Machine)}, sys, found.Machine, nil, &telemetry.Operations{}, discard)
	if err := h.run(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkOnline measures what every period costs on the machine that runs it.
func BenchmarkOnline(b *testing.B) {
	root := os.DirFS("/")
	if _, err := discover.Online(root); err != nil {
		b.Skip(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := discover.Online(root); err != nil {
			b.Fatal(err)
		}
	}
}
