package engine_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// known returns the published claims of a pod.
func known(e *engine.Engine, uid string) string {
	g, there := e.State().Grant(uid)
	if !there {
		return "no pod"
	}
	names := ""
	for _, c := range g.Pod.ResourceClaims {
		names += c.Name + " "
	}
	return names
}

func named(name string) []request.Claim {
	return []request.Claim{{Name: name, Uses: []request.ClaimUse{{Container: "c"}}}}
}

// TestDescribe: claims are published at once and are written next, even while a write of a state
// without them is under way and the machine changes as well. They end with their pod.
func TestDescribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, disk, _ := newStalling(t)
		admitted := make(chan error, 1)
		go func() {
			_, err := e.Admit(t.Context(), pod("a", 1))
			admitted <- err
		}()
		synctest.Wait()
		disk.answers <- nil
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = e.Admit(t.Context(), pod("b", 1)) }()
		synctest.Wait() // The write of b is under way.
		rebased := map[uint64]bool{}
		machine := func(s *node.State) (*node.State, error) {
			s = s.Resume(s.Generation() + 100)
			rebased[s.Generation()] = true
			return s, nil
		}
		if err := errors.Join(e.Rebase(t.Context(), machine), e.Describe(t.Context(), "a", named("gpus")), e.Describe(t.Context(), "unknown", named("x"))); err != nil {
			t.Fatal(err)
		}
		if got := known(e, "a"); got != "gpus " {
			t.Errorf("published at once: %q", got)
		}
		disk.answers <- nil
		synctest.Wait()
		if got := known(e, "a"); got != "gpus " || len(rebased) < 2 || known(e, "b") != "" {
			t.Errorf("after the write: %q of a, %q of b, machine changed %d times", got, known(e, "b"), len(rebased))
		}
		version := e.Snapshot().Version
		if err := e.Describe(t.Context(), "a", named("gpus")); err != nil || e.Snapshot().Version != version {
			t.Errorf("the same claims are a change: %v", err)
		}
		disk.answers <- nil
		go func() { _ = e.Release(t.Context(), "a") }()
		synctest.Wait()
		disk.answers <- nil
		synctest.Wait()
		if got := known(e, "a"); got != "no pod" {
			t.Errorf("released, and has %q", got)
		}
	})
}

// TestDescribeTooMuch: claims that do not fit into a state file change nothing.
func TestDescribeTooMuch(t *testing.T) {
	m, policy := world(node.PodScope)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	fits := func(s *node.State) error {
		for _, g := range s.Grants() {
			if len(g.Pod.ResourceClaims) > 0 {
				return full
			}
		}
		return nil
	}
	e := engine.New(s, engine.Config{
		Store: &disk{}, Encode: func(*node.State) ([]byte, error) { return nil, nil }, Fits: fits, Now: time.Now, Observer: &book{}, Log: slog.New(slog.DiscardHandler),
	})
	if _, err := e.Admit(t.Context(), pod("a", 1)); err != nil {
		t.Fatal(err)
	}
	before := e.State()
	if err := e.Describe(t.Context(), "a", named("gpus")); !errors.Is(err, full) || e.State() != before {
		t.Errorf("%v, changed %t", err, e.State() != before)
	}
}
