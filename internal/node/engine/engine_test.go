package engine_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/store"
)

var errDisk = errors.New("no space left on device")

// disk keeps the state that was written last. It fails while it is broken.
type disk struct {
	state  *node.State
	broken bool
	// uncertain makes a failed write one that may be on the disk.
	uncertain bool
	writes    int
}

func (d *disk) Write(data []byte) error {
	switch {
	case d.broken && d.uncertain:
		return fmt.Errorf("%w (%w)", errDisk, store.ErrUncertain)
	case d.broken:
		return errDisk
	}
	d.writes++
	return nil
}

// book records what the engine reports.
type book struct{ lines []string }

func (b *book) Decided(d engine.Decision) {
	verdict := "admitted"
	switch {
	case d.Err != nil:
		verdict = "not written"
	case d.Plan.Rejection != nil:
		verdict = "refused"
	case d.Plan.Known:
		verdict = "known"
	}
	b.lines = append(b.lines, d.Plan.Pod.Name+" "+verdict)
}

func (b *book) Wrote(w engine.Write) {
	b.lines = append(b.lines, fmt.Sprintf("write %d %t", w.Generation, w.Err == nil))
}
func (b *book) Released(uid string)    { b.lines = append(b.lines, uid+" released") }
func (b *book) take() (lines []string) { lines, b.lines = b.lines, nil; return lines }

func newEngine(t testing.TB, change ...func(*engine.Config)) (*engine.Engine, *disk, *book) {
	t.Helper()
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 8 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true, PodLevelResources: true})
	if err != nil {
		t.Fatal(err)
	}
	kept, observer := &disk{}, &book{}
	c := engine.Config{
		Store: kept, Now: time.Now, Observer: observer, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Encode: func(s *node.State) ([]byte, error) { kept.state = s; return []byte("state"), nil },
	}
	for _, f := range change {
		f(&c)
	}
	return engine.New(s, c), kept, observer
}

func pod(name string, cpus int) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS:        request.Guaranteed,
			Containers: []request.Container{{Name: "c", Type: request.App, CPUs: cpus}},
		},
	}
}

func expect(t *testing.T, b *book, want ...string) {
	t.Helper()
	if got := fmt.Sprint(b.take()); got != fmt.Sprint(want) {
		t.Errorf("got %s, want %v", got, want)
	}
}

func TestAdmissionIsOneWrite(t *testing.T) {
	e, store, book := newEngine(t)
	if _, err := e.Admit(t.Context(), pod("a", 2)); err != nil {
		t.Fatal(err)
	}
	expect(t, book, "write 1 true", "a admitted")
	if store.writes != 1 || e.State() != store.state {
		t.Errorf("%d writes, published state is what was written: %t", store.writes, e.State() == store.state)
	}
	if _, err := e.Admit(t.Context(), pod("a", 2)); err != nil {
		t.Fatal(err)
	}
	plan, err := e.Admit(t.Context(), pod("b", 6))
	if err != nil || plan.Rejection == nil {
		t.Errorf("6 of 5 free CPUs: %v, %v", plan.Rejection, err)
	}
	expect(t, book, "a known", "b refused")
	if store.writes != 1 {
		t.Errorf("%d writes: what changes nothing must not write", store.writes)
	}
}

func TestAdmissionThatCannotBeWrittenChangesNothing(t *testing.T) {
	e, store, book := newEngine(t)
	before := e.State()
	store.broken = true
	if _, err := e.Admit(t.Context(), pod("a", 2)); !errors.Is(err, engine.ErrNotWritten) || !errors.Is(err, errDisk) {
		t.Errorf("error %v, want ErrNotWritten and the disk's", err)
	}
	expect(t, book, "write 1 false", "a not written")
	if e.State() != before {
		t.Error("the state changed")
	}
}

// TestReleaseThatCannotBeWritten: the pod keeps its CPUs until a write contains the release.
func TestReleaseThatCannotBeWritten(t *testing.T) {
	e, store, book := newEngine(t)
	admit(t, e, pod("a", 5))
	store.broken = true
	if err := e.Release(t.Context(), "a"); !errors.Is(err, engine.ErrNotWritten) {
		t.Errorf("error %v, want ErrNotWritten", err)
	}
	if _, err := e.Admit(t.Context(), pod("b", 4)); !errors.Is(err, engine.ErrNotWritten) {
		t.Errorf("error %v: CPUs of a release that is not written were given out", err)
	}
	if e.Tick(t.Context()) == nil {
		t.Error("Tick succeeded on a broken disk")
	}
	if _, holds := e.State().Grant("a"); !holds || len(e.Snapshot().Unreleased) != 1 {
		t.Error("the release was published without a write")
	}
	store.broken = false
	book.take()
	admit(t, e, pod("b", 4))
	expect(t, book, "write 3 true", "a released", "b admitted")
	if _, holds := e.State().Grant("a"); holds || len(e.Snapshot().Unreleased) != 0 {
		t.Error("the release was not taken along")
	}
}

func TestTickRetriesARelease(t *testing.T) {
	e, store, book := newEngine(t)
	admit(t, e, pod("a", 5))
	store.broken = true
	_ = e.Release(t.Context(), "a")
	store.broken = false
	book.take()
	if err := e.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, book, "write 2 true", "a released")
	if err := e.Tick(t.Context()); err != nil || len(book.take()) != 0 {
		t.Error("a tick without work did something")
	}
}

// TestPodComesBackBeforeItsReleaseWasWritten: the pod keeps what it has.
func TestPodComesBackBeforeItsReleaseWasWritten(t *testing.T) {
	e, store, _ := newEngine(t)
	admit(t, e, pod("a", 5))
	assigned := e.State()
	store.broken = true
	_ = e.Release(t.Context(), "a")
	plan, err := e.Admit(t.Context(), pod("a", 5))
	if err != nil || !plan.Known {
		t.Fatalf("known %t, error %v", plan.Known, err)
	}
	store.broken = false
	if err := e.Tick(t.Context()); err != nil || e.State() != assigned {
		t.Errorf("the pod lost what it holds: %v", err)
	}
}

// TestPodComesBackAndTheDiskIsUncertain: the release of the pod may be on the disk. So the pod is
// admitted only with a write that takes the release back.
func TestPodComesBackAndTheDiskIsUncertain(t *testing.T) {
	e, disk, book := newEngine(t)
	admit(t, e, pod("a", 5))
	assigned := e.State()
	disk.broken, disk.uncertain = true, true
	_ = e.Release(t.Context(), "a")
	if _, err := e.Admit(t.Context(), pod("a", 5)); !errors.Is(err, engine.ErrNotWritten) {
		t.Errorf("error %v, want ErrNotWritten: after a loss of power the pod might be gone", err)
	}
	disk.broken = false
	book.take()
	admit(t, e, pod("a", 5))
	admit(t, e, pod("a", 5))
	expect(t, book, "write 1 true", "a known", "a known")
	if e.State() != assigned || disk.state != assigned {
		t.Error("the pod lost what it holds")
	}
}

// TestTickWritesAfterAFailure: the engine notices that the disk works again although nothing
// changes.
func TestTickWritesAfterAFailure(t *testing.T) {
	e, disk, book := newEngine(t)
	disk.broken = true
	_, _ = e.Admit(t.Context(), pod("a", 2))
	book.take()
	if err := e.Tick(t.Context()); !errors.Is(err, engine.ErrNotWritten) {
		t.Errorf("error %v, want ErrNotWritten", err)
	}
	disk.broken = false
	for range 2 {
		if err := e.Tick(t.Context()); err != nil {
			t.Error(err)
		}
	}
	expect(t, book, "write 0 false", "write 0 true")
}

// TestReadersNeverWait reads while other goroutines write. The race detector checks this.
func TestReadersNeverWait(t *testing.T) {
	e, _, _ := newEngine(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for k := range 200 {
				name := fmt.Sprint(i, "-", k)
				if _, err := e.Admit(t.Context(), pod(name, 1)); err != nil {
					t.Error(err)
				}
				e.ContainerCreated(name, "c")
				if err := e.Release(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 2000 {
				if err := e.State().Check(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := len(e.State().Grants()); n != 0 {
		t.Errorf("%d grants are left", n)
	}
}

func admit(t *testing.T, e *engine.Engine, p request.Pod) {
	t.Helper()
	if plan, err := e.Admit(t.Context(), p); err != nil || plan.Rejection != nil {
		t.Fatal(err, plan.Rejection)
	}
}

// TestFlush: Flush writes, once, what no change has written.
func TestFlush(t *testing.T) {
	e, store, book := newEngine(t)
	for range 2 {
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, book, "write 0 true")
	store.broken = true
	admitted := pod("a", 2)
	if _, err := e.Admit(t.Context(), admitted); err == nil {
		t.Fatal("admitted on a broken disk")
	}
	if err := e.Flush(t.Context()); err != nil {
		t.Errorf("nothing is left to write: %v", err)
	}
}
