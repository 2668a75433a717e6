package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paddock-project/paddock/internal/core/moves"
)

// blocked is a search that runs until its client is gone. It counts its calls.
type blocked struct {
	mu            sync.Mutex
	running, most int
}

func (b *blocked) search(ctx context.Context, _ MovesRequest) ([]moves.Move, error) {
	b.count(1)
	<-ctx.Done()
	b.count(-1)
	return nil, ctx.Err()
}

func (b *blocked) count(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += by
	b.most = max(b.most, b.running)
}

// counts returns how many searches run now, and the maximum that ran at the same time.
func (b *blocked) counts() (running, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running, b.most
}

// TestManyAskForMoves checks that a few searches run, some wait, and all others are rejected at
// once. Requests for health are answered in the meantime. A search ends with its client, and then
// another one takes its place.
func TestManyAskForMoves(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.config.Moves.OnRequest = true
		a := b.start()
		b.follow(a, "db 2")
		quick, searches := a.find, &blocked{}
		a.find = searches.search
		handler := a.handler(t.Context())
		ask := func(ctx context.Context, method, path string) *httptest.ResponseRecorder {
			here := context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9925})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(here, method, "http://localhost"+path, strings.NewReader(`{"defragment":{"moves":16}}`)))
			return w
		}
		ctx, leave := context.WithCancel(t.Context())
		const all, places = 60, 36
		answers := make(chan *httptest.ResponseRecorder, all)
		for range all {
			go func() { answers <- ask(ctx, http.MethodPost, movesPath) }()
		}
		synctest.Wait()
		if running, _ := searches.counts(); running != 4 || len(answers) != all-places {
			t.Errorf("%d searches run, and %d requests are answered; want 4 and %d", running, len(answers), all-places)
		}
		for range len(answers) {
			if w := <-answers; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "try again") {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/api/state": 200, "/api/map.svg": 200, "/api/defragment": 503} {
			if w := ask(t.Context(), http.MethodGet, path); w.Code != want {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		leave()
		for range places {
			if w := <-answers; w.Body.Len() > 0 {
				t.Errorf("a client that left is answered: %d %s", w.Code, w.Body)
			}
		}
		if running, most := searches.counts(); running != 0 || most != 4 {
			t.Errorf("%d searches run, at most %d did", running, most)
		}
		a.find = quick
		if w := ask(t.Context(), http.MethodPost, movesPath); w.Code != http.StatusConflict {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// TestSearchForMovesEndsWithItsClient checks that the search itself ends, too.
func TestSearchForMovesEndsWithItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.cutUp()
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, asked := range []MovesRequest{{Defragment: &DefragmentRequest{Moves: 2, Bytes: 1 << 62}}, {Moves: []MoveRequest{{"first", "{}"}}}} {
			if list, err := a.requested(gone, asked); !errors.Is(err, context.Canceled) || list != nil {
				t.Errorf("%v, %v", list, err)
			}
		}
	})
}
