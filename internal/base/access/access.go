// Package access decides which clients may use which paths of the agent's HTTP address. One guard
// is in front of everything that is served there.
//
//	/healthz, /readyz, /metrics   every client that reaches the address, e.g. the probes of a kubelet or a Prometheus.
//	                              They name no pod; /readyz gives its reasons to Local requests only.
//	/debug/...                    clients on the loopback interface only: profiles show the agent's memory.
//	/api/v1/moves                 clients on the loopback interface only: it changes what runs.
//	everything else               clients on the loopback interface, or all clients if Guard.Everywhere is set: the
//	                              live map and the explanations name pods.
//
// The last line applies to every path that this list does not name. Requests on the loopback
// interface must name localhost, an IP address or this host's own name, which often resolves to
// 127.0.1.1. Otherwise a page of another site could read the answers by making its own name resolve
// to the loopback interface (DNS rebinding).
//
// Every request from a page of another site is rejected. The page could not read the answer, but
// the agent would have to compute it. Links on such a page can be followed.
package access

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// Guard rejects requests that are not allowed. The zero value serves paths that name pods on the
// loopback interface only.
type Guard struct {
	// Everywhere allows the map and its explanations on every interface.
	Everywhere bool
	// Switch names the setting of the program that sets Everywhere. If empty, there is none.
	Switch string
	// Name is the name of this host. If empty, the name is not known.
	Name string
}

// Handler passes allowed requests to next. It answers all others with status 403 and a JSON object
// whose field "error" has the reason.
func (g Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.unwelcome(r); why != "" {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // The client is gone if this fails.
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Local reports whether a request came over the loopback interface. A request without a connection,
// for example in a test, is local.
func Local(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local == nil || local.IP.IsLoopback()
}

// unwelcome returns the reason why a request is rejected, or "" if it is allowed. Browsers send the
// kind of site that made the request, and its purpose (https://www.w3.org/TR/fetch-metadata/).
func (g Guard) unwelcome(r *http.Request) string {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Dest") != "document" {
		return "a cross-origin request: a page of another site may link to this address, and not load from it"
	}
	if Local(r) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		short, _, _ := strings.Cut(g.Name, ".")
		for _, own := range []string{"", "localhost", g.Name, short} {
			if strings.EqualFold(host, own) {
				return ""
			}
		}
		if net.ParseIP(strings.Trim(host, "[]")) != nil {
			return ""
		}
		return "this address answers to localhost, to the name of this host and to IP addresses only"
	}
	switch path := r.URL.Path; {
	case path == "/healthz" || path == "/readyz" || path == "/metrics":
		return ""
	case strings.HasPrefix(path, "/debug/"):
		return "profiles show the agent's memory: they are served on the loopback interface only (ssh -L, kubectl port-forward)"
	case path == "/api/v1/moves":
		return "moves change what runs: they are asked for on the loopback interface only (ssh -L, kubectl port-forward)"
	case g.Everywhere:
		return ""
	}
	const why = "the map names pods: it is served on the loopback interface only (ssh -L, kubectl port-forward)"
	if g.Switch == "" {
		return why
	}
	return why + ", unless " + g.Switch
}
