package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paddock-project/paddock/scheduler/cluster"
)

type nodes []string

func (n nodes) Names() []string { return n }

func (n nodes) Show(name string) *cluster.Shown {
	if name == "gone" {
		return nil
	}
	return &cluster.Shown{Node: name, Pods: []cluster.ShownGrant{{UID: "u", Origin: "annotated", Grant: json.RawMessage(`{}`)}}}
}

// TestHandler checks that all nodes, or those that are named, are shown in order, each on one line.
// A node without objects is left out.
func TestHandler(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"/paddock/nodes", "a b"},
		{"/paddock/nodes?node=b&node=gone&node=b", "b"},
		{"/paddock/nodes?node=gone", ""},
	} {
		w := httptest.NewRecorder()
		handler(nodes{"b", "gone", "a"}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, http.NoBody))
		var names []string
		for d := json.NewDecoder(w.Body); d.More(); {
			var shown cluster.Shown
			if err := d.Decode(&shown); err != nil {
				t.Fatal(err)
			}
			names = append(names, shown.Node)
		}
		if got := strings.Join(names, " "); w.Code != http.StatusOK || got != test.want {
			t.Errorf("%s: %d, nodes %s; want %s", test.path, w.Code, got, test.want)
		}
	}
}

// stuck is a client that reads nothing.
type stuck struct {
	httptest.ResponseRecorder
	free <-chan struct{}
}

func (s *stuck) Write(data []byte) (int, error) {
	<-s.free
	return len(data), nil
}

// TestSlowClients checks that slow clients delay no other client, and that their number is limited.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, free := handler(nodes{"a"}), make(chan struct{})
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/paddock/nodes", http.NoBody))
			return w
		}
		for i := range maxClients {
			if w := ask(); w.Code != http.StatusOK {
				t.Errorf("beside %d slow clients: %d %s", i, w.Code, w.Body)
			}
			go h.ServeHTTP(&stuck{free: free}, httptest.NewRequest(http.MethodGet, "/paddock/nodes", http.NoBody))
			synctest.Wait()
		}
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("beside %d slow clients: %d %s", maxClients, w.Code, w.Body)
		}
		close(free)
	})
}

// TestStart checks that the server listens only on the loopback interface.
func TestStart(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0": "", "[::1]:x": "unknown port", "0.0.0.0:0": "is not a loopback address", "localhost": "missing port",
		"example.com:1": "is not a loopback address", ":10269": "is not a loopback address",
	} {
		err := Start(t.Context(), address, nodes{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
