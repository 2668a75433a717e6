package nri_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// The disk is slow, and a pod ends while the begin of its move waits for the disk. One write
// contains both, so no published state shows the move. The set of moves has then ended, and other
// pods can be moved.
func TestMoveOfAPodThatEndsBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		goOn := b.stallDisk()
		asked := make(chan error, 2)
		for _, uid := range []string{"small", "big"} {
			go func() { asked <- b.plugin.RunPodSandbox(b.ctx, sandboxOf(uid)) }()
			synctest.Wait()
		}
		b.stop("c")
		b.unlist("c")
		pass(500 * time.Millisecond)
		goOn()
		pass(time.Minute)
		if err := errors.Join(<-asked, <-asked); !errors.Is(err, nri.ErrMoving) {
			t.Errorf("no move was decided: %v", err)
		}
		if len(w.begun()) != 0 {
			t.Fatalf("begun %v", w.begun())
		}
		b.list(consents(guaranteed("other", 1), request.MoveMemory))
		b.mustRun(t, "other")
		pass(15 * time.Second)
		s := b.engine.State()
		from, _ := s.Grant("other")
		if err := b.plugin.Carry(t.Context(), []moves.Move{{From: from, To: scenario.Elsewhere(s, from).Grant}}, false); err != nil {
			t.Error(err)
		}
		b.check(t)
	})
}

// A move fails, and the runtime does not take the pod back to its old memory. The pod has both
// places until it does. Meanwhile the pod that waits is decided as without moves.
func TestMoveThatCannotBeTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		pass(500 * time.Millisecond)
		b.setUpdates(errors.New("the container is frozen"))
		pass(time.Minute)
		if len(w.ended()) != 0 {
			t.Fatalf("ended %v", w.ended())
		}
		if err := b.run("big"); !errors.Is(err, nri.ErrRejected) {
			t.Errorf("decided again: %v", err)
		}
		b.setUpdates(nil)
		pass(time.Minute)
		if ended := w.ended(); len(ended) != 1 || ended[0] {
			t.Errorf("ended %v", ended)
		}
		b.apart()
		b.check(t)
	})
}

// The disk stalls while the end of a move is written. The pod stays at its new place, because a
// state without its old place may become durable at any moment.
func TestMoveThatIsDoneAndNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		goOn := b.stallDisk()
		for range 12 {
			pass(10 * time.Second)
			if has := b.shown()["c/app"]; has != "2-3 on {0} no quota" {
				t.Errorf("c/app has %s", has)
			}
		}
		goOn()
		pass(10 * time.Second)
		if ended := w.ended(); len(ended) != 1 || !ended[0] {
			t.Errorf("ended %v", ended)
		}
		b.mustRun(t, "big")
		b.apart()
		b.check(t)
	})
}

// The disk is full when a move is done. The end of the move is written when the disk has space
// again. Until then the write is repeated at intervals.
func TestMoveThatIsDoneAndTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		b.full.Store(true)
		writes := b.writes.Load()
		pass(time.Minute)
		if n := b.writes.Load() - writes; n == 0 || n > 60 {
			t.Errorf("%d writes in a minute", n)
		}
		b.full.Store(false)
		pass(10 * time.Second)
		if ended := w.ended(); len(ended) != 1 || !ended[0] {
			t.Errorf("ended %v", ended)
		}
		b.mustRun(t, "big")
		b.apart()
		b.check(t)
	})
}

// An operator cannot move a pod to a place that is promised to another pod. When the promise has
// ended, the place is like any other.
func TestMoveBesideAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t, func(b *bench) { b.list(consents(guaranteed("small", 1), request.MoveMemory)) })
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		synctest.Wait()
		b.mustRun(t, "small")
		pass(15 * time.Second)
		s := b.engine.State()
		from, _ := s.Grant("small")
		list := []moves.Move{{From: from, To: scenario.Elsewhere(s, from).Grant, Across: true}}
		if err := b.plugin.Carry(t.Context(), list, false); err == nil || !strings.Contains(err.Error(), "is promised to it until") {
			t.Errorf("moved to CPUs %s: %v", list[0].To.CPUs(), err)
		}
		goOn := b.stallDisk()
		if err := b.run("big"); err == nil {
			t.Error("it runs without the disk")
		}
		goOn()
		pass(time.Second)
		b.mustRun(t, "big")
		if err := b.plugin.Carry(t.Context(), list, false); err == nil || strings.Contains(err.Error(), "promised") {
			t.Errorf("its pod is there: %v", err)
		}
		b.stop("big")
		b.unlist("big")
		pass(15 * time.Second)
		if err := b.plugin.Carry(t.Context(), list, false); err != nil {
			t.Error(err)
		}
		pass(15 * time.Second)
		if ended := w.ended(); len(ended) != 2 || !ended[1] {
			t.Errorf("ended %v", ended)
		}
		b.apart()
		b.check(t)
	})
}

// A move that took longer than the interval is given up. The pod is then not moved for the interval
// after the end of the move, and for the interval after a restart of the agent, which does not know
// when the move ended.
func TestMoveIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		again := func() error {
			s := b.engine.State()
			from, _ := s.Grant("c")
			return b.plugin.Carry(t.Context(), []moves.Move{{From: from, To: scenario.Elsewhere(s, from).Grant, Across: true}}, false)
		}
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		pass(500 * time.Millisecond)
		b.setUpdates(errors.New("the container is frozen"))
		pass(15 * time.Minute)
		b.setUpdates(nil)
		pass(time.Minute)
		if len(w.ended()) != 1 {
			t.Fatalf("ended %v", w.ended())
		}
		for _, when := range []string{"after its end", "after a restart"} {
			if err := again(); err == nil || !strings.Contains(err.Error(), "moved recently") {
				t.Errorf("%s: %v", when, err)
			}
			b.disconnect()
			b.start()
			pass(time.Minute)
		}
		pass(10 * time.Minute)
		if err := again(); err != nil {
			t.Error(err)
		}
		pass(10 * time.Second)
		b.apart()
		b.check(t)
	})
}

// The last request of the runtime changed the memory of a container that is then to be moved. No
// later request and no cgroup proves that the reply was applied, but the container has the same
// CPUs in any case.
func TestMoveAfterAReplyThatChangesNoCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		if err := b.updateContainer(b.box("c"), "app", sizes{milli: 2000, memory: 64 << 20}); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		s := b.engine.State()
		from, _ := s.Grant("c")
		list := []moves.Move{{From: from, To: scenario.Elsewhere(s, from).Grant, Across: true}}
		if err := b.plugin.Carry(t.Context(), list, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if ended := w.ended(); len(ended) != 1 || !ended[0] {
			t.Errorf("ended %v", ended)
		}
		b.apart()
		b.check(t)
	})
}

// A pod is asked whether it may be moved only if it would be moved. Other pods do not use up the
// time in which they can object.
func TestMoveAsksWhomItMoves(t *testing.T) {
	for objects, want := range map[string]string{"": "c", "c": "c"} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			b, _ := fragmented(t, func(b *bench) {
				b.list(consents(guaranteed("small", 1), request.MoveMemory))
				b.moves.May = func(uid string) error {
					mu.Lock()
					defer mu.Unlock()
					if asked = append(asked, uid); uid == objects {
						return errors.New("not now")
					}
					return nil
				}
			})
			b.mustRun(t, "small")
			pass(15 * time.Second)
			err := b.run("big")
			if moved := errors.Is(err, nri.ErrMoving); moved == (objects == "c") {
				t.Errorf("%q objects: %v", objects, err)
			}
			mu.Lock()
			if got := strings.Join(asked, " "); got != want {
				t.Errorf("%q objects: %q were asked, want %q", objects, got, want)
			}
			mu.Unlock()
			pass(15 * time.Second)
			b.check(t)
		})
	}
}
