package webui_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

// TestTurns checks that two computations run, three wait, and all others are rejected at once. A
// caller that leaves while it waits makes room for another one, and its computation never runs.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := webui.NewTurns(2, 3)
		ctx, leave := context.WithCancelCause(t.Context())
		ran, end, answers := 0, make(chan struct{}), make(chan error, 10)
		compute := func() error { ran++; <-end; return nil }
		for i := range 5 {
			go func() {
				if i < 2 {
					answers <- turns.Do(t.Context(), compute)
				} else {
					answers <- turns.Do(ctx, compute)
				}
			}()
			synctest.Wait()
		}
		if err := turns.Do(t.Context(), compute); ran != 2 || !errors.Is(err, webui.ErrBusy) {
			t.Errorf("%d run, and another one gets %v", ran, err)
		}
		gone := errors.New("gone")
		leave(gone)
		for range 3 {
			if err := <-answers; !errors.Is(err, gone) {
				t.Errorf("one that left gets %v", err)
			}
		}
		close(end)
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if err := turns.Do(ctx, compute); !errors.Is(err, gone) || ran != 2 {
			t.Errorf("%d ran; after the end: %v", ran, err)
		}
		if err := turns.Do(t.Context(), func() error { return gone }); !errors.Is(err, gone) {
			t.Errorf("the error of a computation: %v", err)
		}
	})
}

// TestTurnsAfterAPanic checks that a computation that panics releases its turn.
func TestTurnsAfterAPanic(t *testing.T) {
	turns := webui.NewTurns(1, 0)
	func() {
		defer func() { _ = recover() }()
		_ = turns.Do(t.Context(), func() error { panic("no") })
	}()
	if err := turns.Do(t.Context(), func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestBusy(t *testing.T) {
	w := httptest.NewRecorder()
	webui.Busy(w)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `{"error":"too many others`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
