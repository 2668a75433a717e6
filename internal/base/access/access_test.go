package access_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/access"
)

// TestGuard checks which requests are allowed, by the interface over which they came and the host
// name that they used.
func TestGuard(t *testing.T) {
	var (
		inside  = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9925}
		inside6 = &net.TCPAddr{IP: net.IPv6loopback, Port: 9925}
		outside = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9925}
	)
	for _, c := range []struct {
		path, host string
		over       net.Addr
		everywhere bool
		why        string // "" if it is answered
	}{
		{"/", "127.0.0.1:9925", inside, false, ""},
		{"/", "[::1]:9925", inside6, false, ""},
		{"/", "localhost", inside, false, ""},
		{"/", "", nil, false, ""},
		{"/debug/pprof/heap", "LOCALHOST:9925", inside, false, ""},
		{"/readyz", "evil.example:9925", inside, false, "the name of this host and to IP addresses only"},
		{"/debug/pprof/heap", "evil.example", inside, false, "the name of this host and to IP addresses only"},
		{"/metrics", "evil.example", inside6, true, "the name of this host and to IP addresses only"},
		{"/", "node7:9925", inside, true, ""},
		{"/api/state", "NODE7.cluster.example", inside6, false, ""},
		{"/", "node7.evil.example", inside, true, "the name of this host and to IP addresses only"},
		{"/", "node", inside, true, "the name of this host and to IP addresses only"},
		{"/healthz", "node7:9925", outside, false, ""},
		{"/readyz", "node7:9925", outside, false, ""},
		{"/metrics", "192.0.2.1:9925", outside, false, ""},
		{"/", "node7", outside, false, "the map names pods: it is served on the loopback interface only (ssh -L, kubectl port-forward), unless p runs with --open"},
		{"/api/state", "node7", outside, false, "the map names pods"},
		{"/anything/new", "node7", outside, false, "the map names pods"},
		{"//debug/pprof/", "node7", outside, false, "the map names pods"},
		{"/api/state", "node7", outside, true, ""},
		{"/debug/pprof/", "node7", outside, false, "the loopback interface only"},
		{"/debug/pprof/heap", "node7", outside, true, "the loopback interface only"},
	} {
		asked := false
		guarded := access.Guard{Everywhere: c.everywhere, Switch: "p runs with --open", Name: "node7.cluster.example"}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		r := httptest.NewRequest(http.MethodGet, "http://x"+c.path, http.NoBody)
		r.Host = c.host
		if c.over != nil {
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.over))
		}
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if asked != (c.why == "") || asked != (w.Code == http.StatusOK) || !strings.Contains(w.Body.String(), c.why) {
			t.Errorf("%s of %q over %v, everywhere %t: %d %s, want %q", c.path, c.host, c.over, c.everywhere, w.Code, w.Body, c.why)
		}
		if want := c.over != outside; access.Local(r) != want {
			t.Errorf("over %v: local %t", c.over, !want)
		}
	}
}

// TestOtherSites checks that a page of another site cannot cause computations, and that its links
// work.
func TestOtherSites(t *testing.T) {
	for _, c := range []struct {
		site, destination string
		asked             bool
	}{
		{"", "", true}, // not a browser
		{"none", "document", true},
		{"same-origin", "empty", true},
		{"cross-site", "document", true},
		{"cross-site", "empty", false},
		{"cross-site", "image", false},
		{"cross-site", "iframe", false},
		{"cross-site", "", false},
	} {
		asked := false
		guarded := access.Guard{Everywhere: true}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		r := httptest.NewRequest(http.MethodGet, "http://localhost/api/defragment", http.NoBody)
		r.Header.Set("Sec-Fetch-Site", c.site)
		r.Header.Set("Sec-Fetch-Dest", c.destination)
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if asked != c.asked || !c.asked && (w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "page of another site")) {
			t.Errorf("%q for %q: asked %t, %d %s", c.site, c.destination, asked, w.Code, w.Body)
		}
	}
}
