package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

// from sends a request to a handler for a reader who leaves when ctx ends.
func from(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody))
	return w
}

// TestSlowPictureDelaysNoOtherReader checks that everything else is answered while pictures take
// their time. Some readers wait for a picture and all others are rejected at once. Readers who
// leave are gone before the picture is ready.
func TestSlowPictureDelaysNoOtherReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("a", 1)
		r.admit("large", 9)
		h := r.web.Handler(t.Context(), http.NotFoundHandler())
		quick, free := r.web.draw, make(chan struct{})
		var drawing atomic.Int64
		r.web.draw = func(m moment, as look) ([]byte, error) {
			drawing.Add(1)
			<-free
			return quick(m, as)
		}
		ctx, leave := context.WithCancel(t.Context())
		const all = maxPictures + waitingPictures + 30
		answers := make(chan *httptest.ResponseRecorder, all)
		for range all {
			go func() { answers <- from(ctx, h, "/api/map.svg") }()
		}
		synctest.Wait()
		if drawing.Load() != maxPictures || len(answers) != 30 {
			t.Errorf("%d are drawn, %d are answered; want %d and 30", drawing.Load(), len(answers), maxPictures)
		}
		for range len(answers) {
			if w := <-answers; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		for _, path := range []string{
			"/", "/api/state", "/api/history", "/api/rejections", "/api/pods/uid-a", "/api/explain?pod=default/a", "/api/explain?pod=default/large",
			"/api/map?form=term", "/api/report", "/api/defragment",
		} {
			if w := from(t.Context(), h, path); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		leave()
		synctest.Wait()
		if len(answers) != waitingPictures {
			t.Errorf("%d have left, want %d", len(answers), waitingPictures)
		}
		close(free)
		for range maxPictures + waitingPictures {
			if w := <-answers; w.Body.Len() > 0 {
				t.Fatalf("a client that left is answered: %d %s", w.Code, w.Body)
			}
		}
		if w := from(t.Context(), h, "/api/map.svg"); w.Code != http.StatusOK || drawing.Load() != maxPictures {
			t.Errorf("%d, drawn %d times", w.Code, drawing.Load())
		}
	})
}

// stuck is a reader who accepts no data until it is freed.
type stuck struct {
	httptest.ResponseRecorder
	free <-chan struct{}
}

func (s *stuck) Write(data []byte) (int, error) {
	<-s.free
	return len(data), nil
}

// TestSlowReadersDelayNobodyElse checks that a reader who does not accept an answer does not occupy
// a turn.
func TestSlowReadersDelayNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("a", 1)
		r.admit("large", 9)
		h := r.web.Handler(t.Context(), http.NotFoundHandler())
		free, done := make(chan struct{}), make(chan string, 200)
		paths := []string{
			"/api/state", "/api/map.svg", "/api/map?form=svg", "/api/rejections", "/api/rejections/1", "/api/pods/uid-a", "/api/explain?pod=default/a",
			"/api/report", "/api/defragment", "/api/rejections/1/map.svg?proposal=0",
		}
		for _, path := range paths {
			for range 10 {
				go func() {
					w := &stuck{free: free}
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
					done <- path
				}()
			}
		}
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("%s has been taken", <-done)
		}
		for _, path := range paths {
			w := make(chan *httptest.ResponseRecorder, 1)
			go func() { w <- from(t.Context(), h, path) }()
			synctest.Wait()
			select {
			case w := <-w:
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			default:
				t.Errorf("%s waits for slow readers", path)
			}
		}
		close(free)
	})
}

// TestProblems checks how each error is answered.
func TestProblems(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for i, c := range []struct {
		ctx  context.Context
		err  error
		code int
	}{
		{t.Context(), nil, 0},
		{t.Context(), webui.ErrBusy, http.StatusServiceUnavailable},
		{t.Context(), fmt.Errorf("about: %w", &problem{http.StatusNotFound, "no"}), http.StatusNotFound},
		{t.Context(), errors.New("no"), http.StatusInternalServerError},
		{gone, errors.New("no"), 0},
		{gone, nil, 0},
	} {
		w := httptest.NewRecorder()
		ok := well(w, httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/", http.NoBody), c.err)
		if ok != (c.err == nil && c.ctx != gone) || (w.Body.Len() > 0) != (c.code > 0) || c.code > 0 && w.Code != c.code {
			t.Errorf("%d: %t, %d %s", i, ok, w.Code, w.Body)
		}
	}
}
