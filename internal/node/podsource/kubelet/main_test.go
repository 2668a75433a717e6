package kubelet_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a kubelet. Each request gets the next of its answers. The last answer is repeated.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers []string
	status  int
	asked   int
	token   string
	path    string
}

func newServer(t *testing.T, answers ...string) *server {
	t.Helper()
	s := &server{answers: answers, status: http.StatusOK}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	s.token, s.path = r.Header.Get("Authorization"), r.URL.Path
	w.WriteHeader(s.status)
	_, _ = w.Write([]byte(answer))
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// list returns a PodList of pods, each described as "uid cpus phase".
func list(pods ...string) string {
	var items []string
	for _, p := range pods {
		f := strings.Fields(p + " Running")
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"n-%[1]s","namespace":"default","uid":%[1]q},"status":{"phase":%[3]q},
			"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":%[2]q,"memory":"64Mi"}}}]},"unknown":{"field":1}}`, f[0], f[1], f[2]))
	}
	return `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(items, ",") + `]}`
}

func newSource(t *testing.T, a kubelet.Address) *kubelet.Source {
	t.Helper()
	s, err := kubelet.New(a, kubelet.Options{
		Gates: podspec.Gates{PodLevelResources: true, PodLevelManagers: true}, Log: slog.New(slog.DiscardHandler),
		Now:   time.Now,
		After: func(time.Duration) <-chan time.Time { return time.After(time.Millisecond) },
	})
	if err != nil {
		t.Fatal(err)
	}
	// Run closes idle connections when it ends.
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		_ = s.Run(ctx)
	})
	return s
}
