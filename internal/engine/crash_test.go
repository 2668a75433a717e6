package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/statefile"
	"github.com/paddock-project/paddock/internal/store"
	"github.com/paddock-project/paddock/internal/store/crashfs"
)

// watched tells after every operation.
type watched struct {
	store.FS
	after func()
}

func (w watched) MkdirAll(dir string) error { defer w.after(); return w.FS.MkdirAll(dir) }

func (w watched) Link(name, second string) error { defer w.after(); return w.FS.Link(name, second) }

func (w watched) Rename(from, to string) error { defer w.after(); return w.FS.Rename(from, to) }

func (w watched) Remove(name string) error { defer w.after(); return w.FS.Remove(name) }

func (w watched) SyncDir(dir string) error { defer w.after(); return w.FS.SyncDir(dir) }

func (w watched) Lock(name string) (store.Lock, error) { defer w.after(); return w.FS.Lock(name) }

func (w watched) Create(name string) (store.File, error) {
	defer w.after()
	f, err := w.FS.Create(name)
	return watchedFile{f, w.after}, err
}

type watchedFile struct {
	store.File
	after func()
}

func (f watchedFile) Write(p []byte) (int, error) { defer f.after(); return f.File.Write(p) }

func (f watchedFile) Sync() error { defer f.after(); return f.File.Sync() }

func (f watchedFile) Close() error { defer f.after(); return f.File.Close() }

// look opens what a crash at this moment would leave: the process killed, everything lost that was
// not synced, and something in between.
func (l *life) look() {
	for _, seed := range []uint64{crashfs.KeepAll, crashfs.KeepNothing, 2 + l.looks} {
		l.looks++
		_, loaded, err := store.Open(l.disk.Left(seed), statePath, statefile.MaxSize, l.validate)
		if err != nil {
			_ = l.fail(fmt.Errorf("after a crash (seed %d) it does not open: %w", seed, err))
			return
		}
		if _, known := l.recognise(loaded.Data); !known {
			_ = l.fail(fmt.Errorf("after a crash (seed %d): %v: it is neither the state before nor the one after", seed, loaded))
			return
		}
	}
}

// admit asks for a pod. Whoever gets a grant and no error holds it from now on.
func (l *life) admit(pod request.Pod) error {
	delete(l.ended, pod.UID) // A write that is cut off may have it.
	plan, err := l.engine.Admit(l.ctx, pod)
	if err != nil || plan.Refusal != nil {
		return l.verify()
	}
	old := l.held[pod.UID]
	if plan.Known && old == nil {
		return fmt.Errorf("pod %s is known and was never admitted", pod.UID)
	}
	if plan.Known {
		old.leaving = false
		if err := old.keptIn(plan.Grant); err != nil {
			return err
		}
		return l.verify()
	}
	l.held[pod.UID] = &promise{grant: plan.Grant, removed: map[string]bool{}}
	return l.verify()
}

func (l *life) release(uid string) error {
	if p := l.held[uid]; p != nil {
		p.leaving = true
	}
	err := l.engine.Release(l.ctx, uid)
	if _, there := l.engine.State().Grant(uid); err == nil && there {
		return fmt.Errorf("pod %s was released and is there", uid)
	}
	return l.verify()
}

func (l *life) remove(uid, container string) error {
	if p := l.held[uid]; p != nil {
		p.removed[container] = true
	}
	err := l.engine.RemoveContainer(l.ctx, uid, container)
	if g, there := l.engine.State().Grant(uid); err == nil && there && !l.held[uid].leaving {
		if _, i := g.Pod.Container(container); !g.Containers[i].Removed {
			return fmt.Errorf("container %s of pod %s was removed and is there", container, uid)
		}
	}
	return l.verify()
}

func (l *life) created(uid, container string) error {
	if p := l.held[uid]; p != nil {
		p.created = true
	}
	l.engine.ContainerCreated(uid, container)
	return l.verify()
}

// published holds what readers see against what was promised.
func (l *life) published() error {
	if l.engine == nil {
		return l.broken
	}
	s := l.engine.State()
	for _, g := range s.Grants() {
		if l.held[g.Pod.UID] == nil {
			return fmt.Errorf("readers see pod %s, which holds nothing", g.Pod.UID)
		}
	}
	for uid, p := range l.held {
		g, there := s.Grant(uid)
		if !there {
			return fmt.Errorf("readers do not see pod %s, and nobody said that it was released", uid)
		}
		if err := p.keptIn(g); err != nil {
			return fmt.Errorf("readers see pod %s: %w", uid, err)
		}
	}
	if err := twice(s); err != nil {
		return err
	}
	return l.broken
}

// crash takes the power away and starts again.
func (l *life) crash(seed uint64) error {
	l.disk, l.engine = l.disk.Crash(seed), nil
	return l.start()
}

// kill ends the process and starts again; an agent that ends by itself writes before.
func (l *life) kill(flush bool) error {
	if flush && l.engine != nil {
		_ = l.engine.Flush(l.ctx) // The disk may be broken.
		_ = l.store.Close()
	}
	l.disk.Kill()
	l.engine = nil
	return l.start()
}

// drawPod makes a pod that wants some of eight CPUs: with an init container, a sidecar that
// shares, or a pool.
func drawPod(t *rapid.T, uid string) request.Pod {
	want := func(label string, most int) request.Container {
		c := request.Container{Name: label, Lane: request.App, CPUs: rapid.IntRange(0, most).Draw(t, label), Equivalent: true}
		c.Memory = request.Amounts{{Resource: machine.Memory, Value: int64(1+c.CPUs) << 20}}
		return c
	}
	initial, app := want("init", 3), want("app", 3)
	initial.Lane = request.Init
	pod := request.Pod{UID: uid, Namespace: "default", Name: uid, QoS: request.Guaranteed, Containers: []request.Container{initial, app}}
	if rapid.IntRange(0, 3).Draw(t, "pool") == 0 {
		pod.Kind, pod.BudgetCPUs = request.PodLevel, max(initial.CPUs, app.CPUs)+1
		pod.BudgetCPUMilli = int64(1000 * pod.BudgetCPUs)
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 16 << 20}}
		pod.Containers = append(pod.Containers, request.Container{Name: "log", Lane: request.App})
	}
	return pod
}

// faults are ways in which a disk breaks.
var faults = map[string]func(crashfs.Op) error{
	"full":      crashfs.From(0, syscall.ENOSPC, crashfs.Full...),
	"read-only": crashfs.From(0, syscall.EROFS, crashfs.Changing...),
	"no sync":   crashfs.From(0, syscall.EIO, "sync"),
	"no names":  crashfs.From(0, syscall.EIO, "syncdir"),
	"now and then": func(op crashfs.Op) error {
		if op.N%7 == 0 {
			return syscall.EIO
		}
		return nil
	},
}

// world is eight CPUs on two NUMA nodes, CPU 0 reserved, memory managed.
func world(scope node.Scope) (*machine.Machine, node.Policy) {
	var d machine.Description
	for n := range 2 {
		nd := machine.NodeDescription{ID: n, Memory: 1 << 30}
		for id := range 4 {
			nd.Cores = append(nd.Cores, machine.CoreDescription{Threads: []int{4*n + id}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, nd)
	}
	m, err := machine.New(d)
	if err != nil {
		panic(err)
	}
	reserved := map[int]map[string]int64{0: {machine.Memory: 64 << 20}, 1: {machine.Memory: 64 << 20}}
	return m, node.Policy{
		Topology: node.TopologyBestEffort, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true,
		StaticMemory: true, ReservedMemory: reserved, PodLevelResources: true, PodLevelManagers: true,
	}
}

// TestCrash: in random histories over a disk that breaks and loses power, a crash after any
// operation leaves the state before or the state after, gives no CPU twice, loses none, and every
// pod that was admitted holds what it was admitted with. Ten times as many histories as checks.
func TestCrash(t *testing.T) {
	var looks uint64
	for i := range 10 {
		t.Run(fmt.Sprint(i), rapid.MakeCheck(func(t *rapid.T) {
			m, policy := world(rapid.SampledFrom([]node.Scope{node.PodScope, node.ContainerScope}).Draw(t, "scope"))
			l := newLife(t.Context(), m, policy)
			history(t, l)
			looks += l.looks
		}))
	}
	t.Logf("looked at %d crashes", looks)
}

func history(t *rapid.T, l *life) {
	must(t, l.start())
	uid := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	fault := rapid.SampledFrom(slices.Sorted(maps.Keys(faults)))
	container := rapid.SampledFrom([]string{"init", "app"})
	for range rapid.IntRange(1, 40).Draw(t, "length") {
		if l.engine == nil {
			l.disk.Inject(nil)
			must(t, l.kill(false))
		}
		switch rapid.SampledFrom([]string{"admit", "admit", "admit", "release", "release", "remove", "created", "tick", "flush", "fault", "heal", "crash", "kill", "cut"}).Draw(t, "do") {
		case "admit":
			must(t, l.admit(drawPod(t, uid.Draw(t, "pod"))))
		case "release":
			must(t, l.release(uid.Draw(t, "pod")))
		case "remove":
			must(t, l.remove(uid.Draw(t, "pod"), container.Draw(t, "container")))
		case "created":
			must(t, l.created(uid.Draw(t, "pod"), container.Draw(t, "container")))
		case "tick":
			_ = l.engine.Tick(l.ctx)
		case "flush":
			_ = l.engine.Flush(l.ctx)
		case "fault":
			l.disk.Inject(faults[fault.Draw(t, "fault")])
		case "heal":
			l.disk.Inject(nil)
		case "crash":
			must(t, l.crash(rapid.Uint64Range(0, 99).Draw(t, "seed")))
		case "kill":
			must(t, l.kill(rapid.Bool().Draw(t, "asked for")))
		case "cut":
			l.disk.CrashAfter(rapid.IntRange(0, 9).Draw(t, "operations"))
			must(t, l.admit(drawPod(t, uid.Draw(t, "pod"))))
			must(t, l.crash(rapid.Uint64Range(0, 99).Draw(t, "seed")))
		}
		must(t, l.published())
	}
	l.disk.Inject(nil)
	must(t, l.crash(rapid.Uint64Range(0, 99).Draw(t, "seed")))
	must(t, l.published())
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var _ engine.Observer = (*life)(nil)
