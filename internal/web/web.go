// Package web serves the live map of a node: one page, the numbers behind it, and a stream of what
// changes.
//
// It is told of every state that was written (engine.Observer), keeps the last Kept of them, which
// share what they have in common, and never changes anything: there is no way to ask for it. What is
// costly, the picture, the explanation of a decision and the search for what would admit a pod that
// was refused, is made when somebody asks, one at a time, and the engine never waits for it. An
// explanation is not stored either: the state before the decision is, and planning again gives
// the same answer.
//
// The page is part of the program and loads nothing from elsewhere; its content security policy
// allows nothing else. It names pods, so it is for those who are on the node: it answers on the
// loopback interface alone unless Config says otherwise, and there to this host's names alone, so
// that a foreign page cannot read it through a name that it makes point here.
package web

import (
	"context"
	"crypto/rand"
	"embed"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/view"
)

//go:embed page
var page embed.FS

// maxStreams is how many pages can follow at a time.
const maxStreams = 32

// Config is what the map is of.
type Config struct {
	// Machine and Policy are what people call them.
	Machine, Policy string
	// Snapshot is the state as it is now, nil while there is none. It must not wait and may be called
	// at any time by several goroutines.
	Snapshot func() *engine.Snapshot
	// Now and After are the clock.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Everywhere answers on every interface, not on loopback alone.
	Everywhere bool
}

// Web observes the engine and serves what it saw. It is safe for use by several goroutines.
type Web struct {
	config Config
	// instance tells pages that the program was started anew.
	instance string
	streams  chan struct{}

	mu       sync.Mutex // held for moments only: the engine waits for it
	history  history
	refusals refusals
	// admitted are the decisions about the pods that are there, by UID.
	admitted map[string]admission
	changed  chan struct{} // closed with the next change

	work     sync.Mutex // serialises what is costly
	rendered rendered
	searched searched
}

// admission is when a pod was admitted, and the state that was asked.
type admission struct {
	base *node.State
	at   time.Time
}

// rendered is the picture that was asked for last.
type rendered struct {
	state *node.State
	svg   []byte
}

var _ engine.Observer = (*Web)(nil)

// New is a Web that saw nothing yet.
func New(c Config) *Web {
	return &Web{
		config: c, instance: rand.Text(), streams: make(chan struct{}, maxStreams),
		admitted: map[string]admission{}, changed: make(chan struct{}),
	}
}

// Handler serves the page and what it needs, and leaves everything else to next. Streams end with
// ctx.
func (w *Web) Handler(ctx context.Context, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // The name is in the line above the variable.
	}
	static := func(name string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.ServeFileFS(rw, r, files, name) }
	}
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, w.guard(h)) }
	handle("GET /{$}", static("index.html"))
	handle("GET /page.js", static("page.js"))
	handle("GET /page.css", static("page.css"))
	handle("GET /map.css", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = rw.Write([]byte(view.MapStyle))
	})
	handle("GET /api/map.svg", w.serveMap)
	handle("GET /api/state", w.serveState)
	handle("GET /api/history", w.serveHistory)
	handle("GET /api/refusals", w.serveRefusals)
	handle("GET /api/refusals/{number}", w.serveRefusal)
	handle("GET /api/explain", w.serveExplain)
	handle("GET /api/pods/{uid}", w.servePod)
	handle("GET /events", func(rw http.ResponseWriter, r *http.Request) { w.serveEvents(ctx, rw, r) })
	mux.Handle("/", next)
	return mux
}

// guard sets what a browser may do with an answer, and refuses those who have no business here.
func (w *Web) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if why := w.unwelcome(r); why != "" {
			fail(rw, http.StatusForbidden, why)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// unwelcome says why a request is refused, or nothing.
func (w *Web) unwelcome(r *http.Request) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	switch {
	case local == nil:
		return ""
	case !local.IP.IsLoopback():
		if w.config.Everywhere {
			return ""
		}
		return "the map names pods: it is served on the loopback interface only (ssh -L, kubectl port-forward), unless the agent runs with map: everywhere in its configuration, or --map everywhere"
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil {
		return ""
	}
	return "this address answers to localhost and to IP addresses only"
}

// Wrote is engine.Observer's: a state was written.
func (w *Web) Wrote(write engine.Write) {
	if write.Err == nil && write.State != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.record(write.State, write.At)
	}
}

// Released is engine.Observer's: a pod is gone, as the state says that was written before.
func (w *Web) Released(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.admitted, uid)
}

// Decided is engine.Observer's: a pod was admitted, which Wrote told already, or not.
func (w *Web) Decided(d engine.Decision) {
	at := w.config.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case d.Err != nil || d.Plan.Refusal != nil:
		w.refusals.add(d, at)
		w.wake()
	case !d.Plan.Known:
		w.admitted[d.Plan.Pod.UID] = admission{d.Base, at}
	}
}

// record keeps a state if it is newer than the last one. It is called with mu held.
func (w *Web) record(s *node.State, at time.Time) {
	if w.history.add(s, at) {
		w.wake()
	}
}

// wake tells those who follow. It is called with mu held.
func (w *Web) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// now looks at the state as it is: some changes are not written at once. It returns the last
// moment of the history, and false while there is none.
func (w *Web) now() (moment, bool) {
	s := w.config.Snapshot()
	w.mu.Lock()
	defer w.mu.Unlock()
	if s != nil {
		w.record(s.State, w.config.Now())
	}
	last := w.history.last()
	return last, last.state != nil
}
