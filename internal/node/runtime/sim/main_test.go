package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node with eight CPUs, four on each of two NUMA nodes, with CPU 0 reserved. It has the
// simulated runtime and kubelet, and the plugin that runs on nodes. It must run in a bubble of
// testing/synctest.
type world struct {
	ctx     context.Context
	end     context.CancelFunc
	group   sync.WaitGroup
	runtime *sim.Runtime
	kubelet *sim.Kubelet
	engine  *engine.Engine
	plugin  *nri.Plugin
	checker *simtest.Checker

	mu    sync.Mutex
	fault func(sim.Step) sim.Fault
	said  strings.Builder
}

// newWorld starts a world whose plugin connects.
func newWorld(ctx context.Context, change ...func(*sim.Config)) *world {
	w := &world{}
	w.ctx, w.end = context.WithCancel(ctx)
	w.engine = newEngine()
	w.checker = simtest.NewChecker(w.engine.State)
	c := sim.Config{Now: time.Now, After: time.After, Fault: w.faulty, Observe: w.checker.Observe}
	for _, f := range change {
		f(&c)
	}
	w.runtime = sim.New(w.ctx, c)
	log := slog.New(slog.NewTextHandler(w, nil))
	w.kubelet = w.runtime.NewKubelet(sim.KubeletConfig{Log: log})
	w.plugin = nri.New(nri.Config{
		Engine: w.engine, Pods: w.kubelet, Cgroups: w.runtime.Cgroups(), Observer: ignore{}, Log: log, Now: time.Now, After: time.After,
		Dial:   func(h any) (nri.Link, error) { return w.runtime.Dial(h, "paddock", "90") },
		Socket: "in memory", Timeout: time.Second, Period: 10 * time.Second, Grace: 30 * time.Second, TakeOver: true,
	})
	w.group.Go(func() { _ = w.plugin.Run(w.ctx) })
	w.group.Go(func() { _ = w.kubelet.Run(w.ctx) })
	return w
}

// Write implements the log's writer.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

func (w *world) faulty(s sim.Step) sim.Fault {
	w.mu.Lock()
	f := w.fault
	w.mu.Unlock()
	if f == nil {
		return sim.Fault{}
	}
	return f(s)
}

// breaks sets the function that returns the faults from now on. If nil, there are no faults.
func (w *world) breaks(f func(sim.Step) sim.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// once returns a function that applies a fault only to the first step that fits.
func once(f sim.Fault, fits func(sim.Step) bool) func(sim.Step) sim.Fault {
	var mu sync.Mutex
	done := false
	return func(s sim.Step) sim.Fault {
		mu.Lock()
		defer mu.Unlock()
		if done || !fits(s) {
			return sim.Fault{}
		}
		done = true
		return f
	}
}

// at matches one point of one request.
func at(p sim.Point, hook string) func(sim.Step) bool {
	return func(s sim.Step) bool { return s.Point == p && s.Hook == hook }
}

func (w *world) close() {
	w.end()
	w.runtime.Close()
	w.group.Wait()
}

// follow sets the kubelet's pods and waits a moment.
func (w *world) follow(pods ...request.Pod) {
	w.kubelet.Follow(pods, nil)
	wait(2 * time.Second)
}

func wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // The clock is the bubble's.
	synctest.Wait()
}

// running returns what runs, as "pod/container cpus, …".
func (w *world) running() string {
	var words []string
	for _, o := range w.runtime.Observe() {
		words = append(words, fmt.Sprintf("%s/%s %s", o.Pod, o.Container, o.CPUs))
	}
	return strings.Join(words, ", ")
}

// seen returns an implementation of nri.Config.Seen.
func seen(r *sim.Runtime) func(context.Context, map[string]string) ([]nri.Seen, error) {
	return func(context.Context, map[string]string) ([]nri.Seen, error) {
		var list []nri.Seen
		for _, c := range r.Running() {
			list = append(list, nri.Seen{Who: c.Who, Path: c.Path, Observed: c.Observed})
		}
		return list, nil
	}
}

// bubble runs a test in its own world. At the end everything must run as the state has it.
func bubble(t *testing.T, test func(*testing.T, *world), change ...func(*sim.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), change...)
		defer w.close()
		test(t, w)
		w.breaks(nil)
		wait(time.Minute)
		if err := simtest.AtRest(w.engine.State(), w.runtime.Observe()); err != nil {
			t.Errorf("at rest: %v", err)
		}
		if t.Failed() {
			t.Log(w.log())
		}
	})
}

type ignore struct{}

func (ignore) Hook(string, time.Duration, error) {}
func (ignore) Asked(time.Duration)               {}
func (ignore) Connected(bool)                    {}
func (ignore) Away(time.Duration)                {}
func (ignore) Repaired(int)                      {}
func (ignore) Vetoes(bool)                       {}
func (ignore) Slow(string, time.Duration)        {}
func (ignore) Unverified(int)                    {}
func (ignore) Unsettled(int)                     {}
func (ignore) Decided(engine.Decision)           {}
func (ignore) Wrote(engine.Write)                {}
func (ignore) Released(string)                   {}
func (ignore) Write([]byte) error                { return nil }

// empty returns the state of a node without pods.
func empty(policy node.Policy) *node.State {
	m := scenario.Machine("numa=2 cores=4 memory=1Gi")
	inventory, err := device.NewInventory(m, nil)
	if err != nil {
		panic(err)
	}
	policy.StaticCPU, policy.ReservedCPUs, policy.LiftQuota = true, cpuset.Of(0), true
	s, _, err := node.Adopt(m, policy, inventory, nil)
	if err != nil {
		panic(err)
	}
	return s
}

// aligning returns the state of a node whose policy aligns pods, with their memory, and moves them.
func aligning() *node.State {
	return empty(node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 64 << 20}},
		Moves: node.MovePolicy{Pods: 2, Bytes: 1 << 30},
	})
}

func newEngine() *engine.Engine {
	return engine.New(empty(node.Policy{}), engine.Config{
		Store: ignore{}, Encode: func(*node.State) ([]byte, error) { return nil, nil }, Now: time.Now, Observer: ignore{}, Log: slog.New(slog.DiscardHandler),
	})
}

// exclusive returns a Guaranteed pod with an app container of the given number of CPUs, an init
// container of as many, and a sidecar that shares. sharing returns a pod without CPUs of its own.
func exclusive(uid string, cpus int) request.Pod {
	milli := int64(1000 * cpus)
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "init", Type: request.Init, CPUs: cpus, CPURequest: milli, CPULimit: milli},
		{Name: "log", Type: request.Sidecar, Sharing: request.FractionalCPU, CPURequest: 100, CPULimit: 100},
		{Name: "app", Type: request.App, CPUs: cpus, CPURequest: milli, CPULimit: milli},
	}}}
}

func sharing(uid string) request.Pod {
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Burstable, Containers: []request.Container{
		{Name: "web", Type: request.App, Sharing: request.QoSNotGuaranteed, CPURequest: 100},
	}}}
}

func setting(cpus string) converge.Setting {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return converge.Setting{CPUs: set, Mems: mask.Of(0)}
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}
