// Package access decides who may ask what at the agent's HTTP address: one guard in front of
// everything that is served there.
//
//	/healthz, /readyz, /metrics   whoever reaches the address: a kubelet that probes, a Prometheus that
//	                              scrapes. They name no pod; /readyz has its reasons for Local requests only.
//	/debug/...                    the loopback interface, always: profiles show the agent's memory.
//	everything else               the loopback interface, unless the Guard is for everywhere: the live map
//	                              and what explains decisions name pods.
//
// A path that nobody thought of is in the last line. What is for the loopback interface answers to the
// names of this host only, and so does everything else that is asked there: a web page from elsewhere
// that makes a name of its own lead to 127.0.0.1 (DNS rebinding) could read it otherwise.
package access

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// Guard refuses requests of those who may not ask. The zero value serves nothing that names pods
// outside of the loopback interface.
type Guard struct {
	// Everywhere serves the map and what belongs to it on every interface.
	Everywhere bool
}

// Handler hands what may be asked to next, and answers everything else with 403 and a JSON object whose
// "error" says why.
func (g Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.unwelcome(r); why != "" {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // An error is the reader's, who is gone.
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Local tells whether a request came over the loopback interface. One that came over no connection, as in
// a test, is local.
func Local(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local == nil || local.IP.IsLoopback()
}

// unwelcome says why a request is refused, or nothing.
func (g Guard) unwelcome(r *http.Request) string {
	if Local(r) {
		if ofThisHost(r.Host) {
			return ""
		}
		return "this address answers to localhost and to IP addresses only"
	}
	switch path := r.URL.Path; {
	case path == "/healthz" || path == "/readyz" || path == "/metrics":
		return ""
	case strings.HasPrefix(path, "/debug/"):
		return "profiles show the agent's memory: they are served on the loopback interface only (ssh -L, kubectl port-forward)"
	case g.Everywhere:
		return ""
	}
	return "the map names pods: it is served on the loopback interface only (ssh -L, kubectl port-forward), unless the agent runs with map: everywhere in its configuration, or --map everywhere"
}

// ofThisHost tells whether the Host header is one that no foreign page can have.
func ofThisHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}
