package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOneGuard checks everything that is served on the listen address. A client on another machine
// sees no pods, reasons or memory, and a page of another site on the node sees nothing.
func TestOneGuard(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.config.Profile = true
		a := b.start()
		b.follow(a, "db 2")
		failed := errors.New("state file /var/lib/secret: default/db is in the way")
		a.health.last.Store(&failed)
		ask := func(everywhere, host, path string, ip net.IP) (int, string) {
			a.config.Map = everywhere
			r := httptest.NewRequest(http.MethodGet, "http://x"+path, http.NoBody)
			r.Host = host
			w := httptest.NewRecorder()
			over := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: ip, Port: 9925})
			a.handler(t.Context()).ServeHTTP(w, r.WithContext(over))
			return w.Code, w.Body.String()
		}
		inside, outside := net.IPv4(127, 0, 0, 1), net.IPv4(192, 0, 2, 1)
		for path, want := range map[string]struct{ inside, outside, everywhere int }{
			"/healthz": {200, 200, 200}, "/metrics": {200, 200, 200}, "/readyz": {503, 503, 503},
			"/": {200, 403, 200}, "/api/state": {200, 403, 200}, "/api/rejections": {200, 403, 200}, "/api/explain?pod=default/db": {200, 403, 200},
			"/debug/pprof/": {200, 403, 403}, "/debug/pprof/heap": {200, 403, 403}, "/debug/pprof/cmdline": {200, 403, 403},
			"/none": {404, 403, 404},
		} {
			in, _ := ask(MapLoopback, "127.0.0.1:9925", path, inside)
			out, text := ask(MapLoopback, "node7:9925", path, outside)
			open, _ := ask(MapEverywhere, "node7:9925", path, outside)
			if in != want.inside || out != want.outside || open != want.everywhere {
				t.Errorf("%s: %d inside, %d outside, %d with the map everywhere; want %+v", path, in, out, open, want)
			}
			if strings.Contains(text, "default/db") || strings.Contains(text, "secret") {
				t.Errorf("%s tells outside: %s", path, text)
			}
			if foreign, _ := ask(MapEverywhere, "evil.example:9925", path, inside); foreign != http.StatusForbidden {
				t.Errorf("%s: a foreign page reads it: %d", path, foreign)
			}
		}
		if _, text := ask(MapLoopback, "localhost", "/readyz", inside); !strings.Contains(text, "secret") {
			t.Errorf("readyz on the node does not say why: %s", text)
		}
		if _, text := ask(MapLoopback, "node7", "/readyz", outside); text != "state: not ready\nruntime: ready\ncontainers: ready\nmanifests: ready\nnot ready\n" {
			t.Errorf("readyz outside: %q", text)
		}
	})
}
