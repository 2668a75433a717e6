package resourceslices

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/node/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers lists and watches of ResourceSlices.
type server struct {
	*httptest.Server
	// list is the answer to a list, and status its HTTP status. Zero means 200.
	mu       sync.Mutex
	list     string
	status   int
	selector string
	// events sends the lines of watches.
	events chan string
	// frozen delays every answer until it is closed. If nil, no answer is delayed.
	frozen chan struct{}
}

func newServer(t *testing.T, list string) *server {
	t.Helper()
	s := &server{list: list, events: make(chan string)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/resource.k8s.io/v1/resourceslices" {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	list, status, frozen := s.list, s.status, s.frozen
	s.selector = r.URL.Query().Get("fieldSelector")
	s.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		if status != 0 {
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte(list))
		return
	}
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event := <-s.events:
			if event == "" {
				return
			}
			_, _ = w.Write([]byte(event + "\n"))
		case <-r.Context().Done():
			return
		}
	}
}

// selected returns the field selector of the last request.
func (s *server) selected() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.selector
}

// text is a log that several goroutines use.
type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (l *text) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(data)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func (s *server) set(list string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.status = list, status
}

// send sends an event of a watch. It waits until a watch receives it.
func (s *server) send(t *testing.T, kind, object string) {
	t.Helper()
	select {
	case s.events <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object):
	case <-time.After(5 * time.Minute):
		t.Fatal("no watch takes the event")
	}
}

// slice returns a ResourceSlice with one GPU for each element of nodes, on that NUMA node.
func slice(name string, version, generation int, nodes ...int) string {
	var devices []map[string]any
	for i, n := range nodes {
		devices = append(devices, map[string]any{"name": fmt.Sprintf("gpu%d", i), "attributes": map[string]any{"resource.kubernetes.io/numaNode": map[string]int{"int": n}}})
	}
	text, err := json.Marshal(map[string]any{
		"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": map[string]any{"name": name, "resourceVersion": fmt.Sprint(version), "uid": name},
		"spec": map[string]any{"driver": "gpu.example.com", "nodeName": "node7", "pool": map[string]any{"name": name, "generation": generation}, "devices": devices},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// listOf returns a list of slices.
func listOf(slices ...string) string {
	var items []json.RawMessage
	for _, s := range slices {
		items = append(items, json.RawMessage(s))
	}
	text, err := json.Marshal(map[string]any{"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "metadata": map[string]string{"resourceVersion": "10"}, "items": items})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// started returns a watch that runs until the test ends, and a channel that receives an element for
// every change of its places.
func started(t *testing.T, s *server, log *text) (*Watch, chan struct{}) {
	t.Helper()
	config, err := apiserver.Address{URL: s.URL}.Config(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return run(t, config, log)
}

func run(t *testing.T, config *rest.Config, log *text) (*Watch, chan struct{}) {
	t.Helper()
	changes := make(chan struct{}, 100)
	handler := slog.DiscardHandler
	if log != nil {
		handler = slog.NewTextHandler(log, nil)
	}
	w, err := New(config, Options{Node: "node7", Log: slog.New(handler), Changed: func() { changes <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(ended)
		_ = w.Run(ctx)
	}()
	t.Cleanup(func() { <-ended }) // The context of a test ends before its cleanups run.
	return w, changes
}

// await waits for n changes.
func await(t *testing.T, changes chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-changes:
		case <-time.After(5 * time.Minute):
			t.Fatal("no change")
		}
	}
}
