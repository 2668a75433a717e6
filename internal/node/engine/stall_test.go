package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// gate is a disk whose writes end when the test sends their outcome.
type gate struct{ answers chan error }

func (g gate) Write([]byte) error { return <-g.answers }

func newStalling(t *testing.T) (*engine.Engine, gate, *book) {
	t.Helper()
	first, _, _ := newEngine(t)
	g, b := gate{make(chan error)}, &book{}
	return engine.New(first.State(), engine.Config{
		Store: g, Now: time.Now, Observer: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Encode: func(*node.State) ([]byte, error) { return []byte("state"), nil },
	}), g, b
}

// within returns a context that ends after a second.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestStall: while the disk stalls, an admission is answered at its deadline. Its grant is
// invisible, and its CPUs are given to no other pod. A durable pod is answered at once. The retry
// after the stall finds the grant, as if it were the first admission.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, book := newStalling(t)
		go func() { disk.answers <- nil }()
		admit(t, e, pod("old", 1))
		begin := time.Now()
		_, err := e.Admit(within(t), pod("a", 4))
		if took := time.Since(begin); !errors.Is(err, engine.ErrNotWritten) || took != time.Second {
			t.Fatalf("after %v: %v; want ErrNotWritten after 1s", took, err)
		}
		if _, visible := e.State().Grant("a"); visible || len(e.Snapshot().Pending) != 1 {
			t.Errorf("visible %t, pending %d; want a grant that is pending only", visible, len(e.Snapshot().Pending))
		}
		begin = time.Now()
		if plan, err := e.Admit(within(t), pod("old", 1)); err != nil || !plan.Known || time.Since(begin) != 0 {
			t.Errorf("a durable pod was answered after %v with %v", time.Since(begin), err)
		}
		if plan, err := e.Admit(within(t), pod("b", 4)); err != nil || plan.Rejection == nil {
			t.Errorf("the CPUs of the pending grant were given away: %v", err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // The clock is the bubble's.
		begin = time.Now()
		if _, err := e.Admit(within(t), pod("c", 1)); !errors.Is(err, engine.ErrNotWritten) || time.Since(begin) != 0 {
			t.Errorf("during a stall a pod waited %v for %v; want ErrNotWritten at once", time.Since(begin), err)
		}
		disk.answers <- nil
		go func() { disk.answers <- nil }()
		synctest.Wait()
		plan, err := e.Admit(within(t), pod("a", 4))
		if err != nil || plan.Known {
			t.Errorf("the retry: %v, known %t", err, plan.Known)
		}
		expect(t, book, "write 1 true", "old admitted", "a not written", "old known", "b refused", "c not written", "write 2 true", "write 3 true", "a admitted")
	})
}

// TestStallAndThePodIsGone: a grant that no caller waits for any more is released.
func TestStallAndThePodIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, book := newStalling(t)
		if _, err := e.Admit(within(t), pod("a", 4)); !errors.Is(err, engine.ErrNotWritten) {
			t.Fatal(err)
		}
		e.Drop(t.Context(), "a")
		if n := len(e.Snapshot().Pending); n != 0 {
			t.Errorf("%d grants are pending", n)
		}
		disk.answers <- nil // the write that has the grant
		synctest.Wait()
		if now := e.Snapshot(); len(now.Unreleased) != 1 {
			t.Errorf("unreleased: %v; the pod is on the disk and gone", now.Unreleased)
		}
		disk.answers <- nil
		synctest.Wait()
		if n := len(e.State().Grants()); n != 0 {
			t.Errorf("%d grants are left", n)
		}
		expect(t, book, "a not written", "write 1 true", "write 2 true", "a released")
	})
}

// TestStallThenFailure: a failed write takes back everything that was planned on the grant that was
// not written.
func TestStallThenFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, _ := newStalling(t)
		before := e.State()
		fails := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			go func() {
				_, err := e.Admit(t.Context(), pod(name, 2))
				fails <- err
			}()
			synctest.Wait()
		}
		disk.answers <- errDisk
		for range 2 {
			if err := <-fails; !errors.Is(err, errDisk) {
				t.Errorf("error %v, want the disk's", err)
			}
		}
		if now := e.Snapshot(); now.State != before || len(now.Pending) != 0 {
			t.Errorf("something is left: %v", now.Pending)
		}
	})
}

// TestBurstIsFewWrites: the next write contains everything that was decided during a write.
func TestBurstIsFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, book := newStalling(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			go func() {
				if _, err := e.Admit(t.Context(), pod(name, 1)); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		disk.answers <- nil
		disk.answers <- nil
		synctest.Wait()
		if lines := book.take(); len(lines) != 6 || lines[0] != "write 1 true" {
			t.Errorf("got %v, want two writes and four admissions", lines)
		}
	})
}

// TestFlushEndsWithItsContext: an exit does not wait for a disk that stalls.
func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, _ := newStalling(t)
		if err := e.Flush(within(t)); !errors.Is(err, engine.ErrNotWritten) {
			t.Errorf("error %v, want ErrNotWritten", err)
		}
		disk.answers <- nil
	})
}

// TestRebaseDuringAWrite: the state that is published after the write is also one of the new
// machine.
func TestRebaseDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, _ := newStalling(t)
		go func() { _, _ = e.Admit(t.Context(), pod("a", 4)) }()
		synctest.Wait()
		marked := map[*node.State]bool{}
		err := e.Rebase(t.Context(), func(s *node.State) (*node.State, error) {
			s = s.Resume(s.Generation() + 100)
			marked[s] = true
			return s, nil
		})
		if err != nil || !marked[e.State()] {
			t.Errorf("published at once: %t, %v", marked[e.State()], err)
		}
		disk.answers <- nil
		synctest.Wait()
		if _, there := e.State().Grant("a"); !there || !marked[e.State()] {
			t.Errorf("the pod is there: %t; on the new machine: %t", there, marked[e.State()])
		}
		disk.answers <- nil
	})
}
