package fleetpage_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

// clock is the real clock.
var clock = fleetpage.Clock{Now: time.Now, After: time.After}

// moving is a source that a test can change.
type moving struct {
	mu      sync.Mutex
	moment  fleetpage.Moment
	changed chan struct{}
}

func newMoving(f *fleetpage.Fleet) *moving {
	return &moving{moment: fleetpage.Moment{Fleet: f}, changed: make(chan struct{})}
}

// Present implements fleetpage.Source.
func (m *moving) Present() (fleetpage.Moment, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moment, m.changed
}

func (m *moving) set(next fleetpage.Moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moment = next
	close(m.changed)
	m.changed = make(chan struct{})
}

// with returns a copy of the fleet with one more pod on the node.
func with(t *testing.T, f *fleetpage.Fleet, node string, p fleet.Pod) *fleetpage.Fleet {
	t.Helper()
	next := *f
	next.Views = slices.Clone(f.Views)
	i := slices.IndexFunc(next.Views, func(v *fleet.View) bool { return v.Name == node })
	v, plan, err := next.Views[i].Place(p)
	if err != nil || plan.Grant == nil {
		t.Fatalf("%v, %v", plan, err)
	}
	next.Views[i] = v
	return &next
}

// TestEvents checks that a change of one node is sent as one tile, also after several changes came
// together, and that other nodes make the page read everything. The stream reports when the source
// is no longer followed and when it is followed again.
func TestEvents(t *testing.T) {
	first := fleetOf(t, 8)
	now := newMoving(first)
	server := httptest.NewServer(fleetpage.New(now, clock).Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/events") //nolint:noctx // It ends with the server.
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() (event string, data map[string]any) {
		for lines.Scan() {
			if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
				event = name
			} else if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := json.Unmarshal([]byte(text), &data); err != nil {
					t.Fatal(err)
				}
				return event, data
			}
		}
		t.Fatal("the stream ended: ", lines.Err())
		return "", nil
	}
	if event, data := next(); event != "hello" || data["revision"] != 1.0 {
		t.Fatalf("%s %v", event, data)
	}
	second := with(t, first, "node-0003", pod("a/b", 3))
	second.Summary = "eight"
	now.set(fleetpage.Moment{Fleet: second})
	event, data := next()
	tiles, _ := data["tiles"].(map[string]any)
	if tile, _ := tiles["2"].(map[string]any); event != "change" || len(tiles) != 1 || tile["name"] != "node-0003" || tile["pods"] != 1.0 || data["summary"] != "eight" {
		t.Fatalf("%s %v", event, data)
	}
	now.set(fleetpage.Moment{Fleet: second, Since: time.Unix(0, 0), Why: "away"})
	if event, data := next(); event != "state" || data["since"] != "1970-01-01T00:00:00Z" || data["why"] != "away" {
		t.Fatalf("%s %v", event, data)
	}
	now.set(fleetpage.Moment{Fleet: fleetOf(t, 9)})
	if event, _ := next(); event != "everything" {
		t.Fatal(event)
	}
	if event, data := next(); event != "state" || data["why"] != "" {
		t.Fatalf("%s %v", event, data)
	}
}

// TestPlaceHasALimit checks that a question that takes too long gets an error that reports it, and
// so does a question that waits for it.
func TestPlaceHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2)
		free := make(chan struct{})
		read := f.Read
		f.Read = func(_ context.Context, text []byte) ([]fleet.Pod, []string, error) {
			<-free
			return read(t.Context(), text)
		}
		page := fleetpage.New(fleetpage.Static{Fleet: f}, clock).Handler()
		answers := make(chan *httptest.ResponseRecorder, 2)
		for range 2 {
			go func() {
				w := httptest.NewRecorder()
				page.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/place", strings.NewReader("3")))
				answers <- w
			}()
		}
		begin := clock.Now()
		waited := <-answers
		if took := clock.Now().Sub(begin); took != 20*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		close(free)
		for _, w := range []*httptest.ResponseRecorder{waited, <-answers} {
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "there is no answer after 20s: paste fewer pods") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}
