package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// watched calls after after every operation.
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

// look opens what a crash at this moment would leave, in three cases: the process is killed,
// everything that was not synced is lost, and something in between.
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

// admit asks for a pod. If the pod gets a grant without an error, the grant is assigned to it from
// now on.
func (l *life) admit(pod request.Pod) error {
	delete(l.ended, pod.UID) // An interrupted write may contain it.
	plan, err := l.engine.Admit(l.ctx, pod)
	if err != nil || plan.Rejection != nil {
		return l.verify()
	}
	old := l.assigned[pod.UID]
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
	l.assigned[pod.UID] = promised(plan.Grant)
	return l.verify()
}

func (l *life) release(uid string) error {
	if p := l.assigned[uid]; p != nil {
		p.leaving = true
	}
	err := l.engine.Release(l.ctx, uid)
	if _, there := l.engine.State().Grant(uid); err == nil && there {
		return fmt.Errorf("pod %s was released and is there", uid)
	}
	return l.verify()
}

// resize asks for other sizes of a pod. If the pod gets them without an error, it has them from now
// on. If it is not known whether they were written, the pod has either grant.
func (l *life) resize(uid string, sizes func(request.Pod) request.Pod) error {
	p := l.assigned[uid]
	if p == nil {
		return nil
	}
	g, there := l.engine.State().Grant(uid)
	if !there {
		return nil
	}
	p.resizing = true
	plan, err := l.engine.Resize(l.ctx, sizes(g.Pod))
	p.resizing = false
	if plan.Grant != nil && err == nil {
		p.grant, p.or = plan.Grant, nil
	}
	return l.verify()
}

// move begins to move a pod, or ends its move. If it is not known whether the end was written, the
// pod has either place.
func (l *life) move(uid string, done bool) error {
	s := l.engine.State()
	g, there := s.Grant(uid)
	p := l.assigned[uid]
	switch {
	case !there || p == nil:
		return nil
	case g.Moving == nil:
		to := scenario.Elsewhere(s, g)
		if to.Rejection == nil { // There may be no room for both places.
			_ = l.engine.Move(l.ctx, uid, func(s *node.State) (*node.State, error) { return s.BeginMove(to.Grant) })
		}
		return l.verify()
	}
	p.resizing = true
	err := l.engine.Move(l.ctx, uid, func(s *node.State) (*node.State, error) { return s.EndMove(uid, done), nil })
	p.resizing = false
	// A pod that is leaving has no move to end: both places are released when its release is
	// durable.
	if now, there := l.engine.State().Grant(uid); err == nil && there && !p.leaving {
		if now.Moving != nil {
			return fmt.Errorf("the move of pod %s has ended, and readers see both places", uid)
		}
		p.grant, p.or = now, nil
	}
	return l.verify()
}

func (l *life) created(uid, container string) error {
	if p := l.assigned[uid]; p != nil {
		p.created = true
	}
	l.engine.ContainerCreated(uid, container)
	return l.verify()
}

// describe keeps claims of a pod. They become durable with the next write.
func (l *life) describe(uid string, claims []request.Claim) error {
	p := l.assigned[uid]
	if p != nil {
		p.claims = append(p.claims, claims)
	}
	if err := l.engine.Describe(l.ctx, uid, claims); err != nil {
		return err
	}
	if err := l.engine.Flush(l.ctx); err == nil && p != nil {
		p.claims = [][]request.Claim{claims}
	}
	return l.verify()
}

// drawClaims draws the claims of a pod, with known or unknown devices.
func drawClaims(t *rapid.T) []request.Claim {
	c := request.Claim{Name: "gpus", Uses: []request.ClaimUse{{Container: "app"}}}
	switch rapid.IntRange(0, 2).Draw(t, "claims") {
	case 0:
		return nil
	case 1:
		c.Devices = []request.ClaimDevice{{Driver: "d", Pool: "p", Name: "gpu0", ShareID: rapid.SampledFrom([]string{"", "s"}).Draw(t, "share"), CDI: []string{"d/gpu=0"}}}
	}
	return []request.Claim{c}
}

// published compares what readers see with what was promised.
func (l *life) published() error {
	if l.engine == nil {
		return l.broken
	}
	s := l.engine.State()
	for _, g := range s.Grants() {
		if l.assigned[g.Pod.UID] == nil {
			return fmt.Errorf("readers see pod %s, which holds nothing", g.Pod.UID)
		}
	}
	for uid, p := range l.assigned {
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

// crash cuts the power and starts again.
func (l *life) crash(seed uint64) error {
	l.disk, l.engine = l.disk.Crash(seed), nil
	return l.start()
}

// kill ends the process and starts again. If flush is true, the agent ends by itself and writes
// before.
func (l *life) kill(flush bool) error {
	if flush && l.engine != nil {
		_ = l.engine.Flush(l.ctx) // The disk may be broken.
		_ = l.store.Close()
	}
	l.disk.Kill()
	l.engine = nil
	return l.start()
}

// drawPod draws a pod that wants some of eight CPUs, with an init container, a sidecar that shares
// CPUs, or a pool.
func drawPod(t *rapid.T, uid string) request.Pod {
	want := func(label string, most int) request.Container {
		c := request.Container{Name: label, Type: request.App, CPUs: rapid.IntRange(0, most).Draw(t, label), Equivalent: true}
		c.Memory = request.Amounts{{Resource: machine.Memory, Value: int64(1+c.CPUs) << 20}}
		return c
	}
	initial, app := want("init", 3), want("app", 3)
	initial.Type = request.Init
	pod := request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{initial, app}}}
	pod.ResourceClaims = drawClaims(t)
	if rapid.IntRange(0, 3).Draw(t, "pool") == 0 {
		pod.Kind, pod.BudgetCPUs = request.PodLevel, max(initial.CPUs, app.CPUs)+1
		pod.BudgetCPUMilli = int64(1000 * pod.BudgetCPUs)
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 16 << 20}}
		pod.Containers = append(pod.Containers, request.Container{Name: "log", Type: request.App})
	}
	return pod
}

// drawSizes changes the CPUs of containers, and those of the pool with them.
func drawSizes(t *rapid.T, pod request.Pod) request.Pod {
	pod.Containers = slices.Clone(pod.Containers)
	most := 0
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.CPUs > 0 {
			c.CPUs = max(1, c.CPUs+rapid.IntRange(-2, 2).Draw(t, "more"))
			c.Memory = request.Amounts{{Resource: machine.Memory, Value: int64(1+c.CPUs) << 20}}
			most = max(most, c.CPUs)
		}
	}
	if pod.BudgetCPUs > 0 {
		pod.BudgetCPUs = max(most+1, pod.BudgetCPUs+rapid.IntRange(-2, 2).Draw(t, "more for the pool"))
		pod.BudgetCPUMilli = int64(1000 * pod.BudgetCPUs)
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

// world returns a machine with eight CPUs on two NUMA nodes, and a policy that reserves CPU 0 and
// manages memory.
func world(scope node.Scope) (*machine.Machine, node.Policy) {
	m := scenario.Machine("numa=2 cores=4 memory=1Gi")
	reserved := map[int]map[string]int64{0: {machine.Memory: 64 << 20}, 1: {machine.Memory: 64 << 20}}
	return m, node.Policy{
		Topology: node.TopologyBestEffort, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true,
		StaticMemory: true, ReservedMemory: reserved, PodLevelResources: true, PodLevelManagers: true,
	}
}

// TestCrash runs random histories over a disk that breaks and loses power. A crash after any
// operation leaves the state before or the state after, gives no CPU to two pods, and loses none.
// Every pod that was admitted keeps what it was admitted with. There are ten times as many
// histories as rapid has checks.
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
		switch rapid.SampledFrom([]string{"admit", "admit", "admit", "resize", "resize", "resize", "resize", "move", "move", "move", "move", "release", "release", "created", "describe", "tick", "flush", "fault", "heal", "crash", "kill", "cut"}).Draw(t, "do") {
		case "admit":
			must(t, l.admit(drawPod(t, uid.Draw(t, "pod"))))
		case "resize":
			must(t, l.resize(uid.Draw(t, "pod"), func(p request.Pod) request.Pod { return drawSizes(t, p) }))
		case "move":
			must(t, l.move(uid.Draw(t, "pod"), rapid.Bool().Draw(t, "done")))
		case "release":
			must(t, l.release(uid.Draw(t, "pod")))
		case "created":
			must(t, l.created(uid.Draw(t, "pod"), container.Draw(t, "container")))
		case "describe":
			must(t, l.describe(uid.Draw(t, "pod"), drawClaims(t)))
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
			switch rapid.IntRange(0, 2).Draw(t, "of") {
			case 0:
				must(t, l.move(uid.Draw(t, "pod"), rapid.Bool().Draw(t, "done")))
			case 1:
				must(t, l.resize(uid.Draw(t, "pod"), func(p request.Pod) request.Pod { return drawSizes(t, p) }))
			default:
				must(t, l.admit(drawPod(t, uid.Draw(t, "pod"))))
			}
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
