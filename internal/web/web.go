// Package web serves the live map of a node: one page, the numbers behind it, and a stream of what
// changes.
//
// It is told of every state that was written (engine.Observer), keeps the last of them, as many as Kept
// and maxHistoryBytes allow, and never changes anything: there is no way to ask for it. What is
// costly is made when a page asks for it, and the engine never waits for it: the picture once for each
// state; the search for what would admit a rejected pod in one of maxSearches places, so that a
// slow one holds up no other page, and only as long as its reader waits. An explanation is not stored:
// of each decision the web keeps the pod and the state before it without its grants (node.State.Bare), of
// rejections the account too, and planning again gives the same answer. So what is kept of a decision
// does not grow with the pods on the node, and keeps none of them.
//
// What outlives a restart is the journal: rejections with their accounts, and when pods were admitted. The
// agent writes it and hands it in again; see Journal and Restore.
//
// The page is part of the program and loads nothing from elsewhere; its content security policy
// allows nothing else. It names pods, so it is for those who are on the node: internal/access
// guards it, and everything else that is served at the same address.
package web

import (
	"context"
	"crypto/rand"
	"embed"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/explain"
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
	// Notice returns why what is shown is not in force, empty if it is: another manager assigns CPUs on this
	// node. It must not wait and may be called at any time by
	// several goroutines. Nil: it always is.
	Notice func() string
	// Now and After are the clock.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
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
	// edition counts the changes of the journal, edited has an element when there was one.
	edition uint64
	edited  chan struct{}

	drawing  sync.Mutex // serialises pictures
	rendered rendered

	// searches has a place for each search that may run at a time; search is explain.Search.
	searches chan struct{}
	search   func(context.Context, *node.State, request.Pod) (explain.Remedies, error)
	finding  sync.Mutex // held for moments only
	searched searched
}

// maxSearches is how many searches for remedies run at a time. Each is bounded, ends when its reader has
// gone, and computes on one CPU.
const maxSearches = 4

// admission is when a pod was admitted, by the sequence of its grant, and the state that was asked, without
// its grants: nil where that was before a restart.
type admission struct {
	base     *node.State
	at       time.Time
	revision uint64
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
		admitted: map[string]admission{}, changed: make(chan struct{}), edited: make(chan struct{}, 1),
		searches: make(chan struct{}, maxSearches),
		search: func(ctx context.Context, s *node.State, pod request.Pod) (explain.Remedies, error) {
			return explain.Search(ctx, s, pod)
		},
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
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, harden(h)) }
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
	handle("GET /api/refusals/{number}", until(ctx, w.serveRefusal))
	handle("GET /api/explain", until(ctx, w.serveExplain))
	handle("GET /api/pods/{uid}", w.servePod)
	handle("GET /events", func(rw http.ResponseWriter, r *http.Request) { w.serveEvents(ctx, rw, r) })
	mux.Handle("/", next)
	return mux
}

// until ends the context of requests with ctx as well.
func until(ctx context.Context, next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		both, cancel := context.WithCancel(r.Context())
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		next(rw, r.WithContext(both))
	}
}

// harden sets what a browser may do with an answer.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(rw, r)
	})
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
	if _, there := w.admitted[uid]; there {
		delete(w.admitted, uid)
		w.edit()
	}
}

// Decided is engine.Observer's: a pod was admitted, which Wrote told already, or not.
func (w *Web) Decided(d engine.Decision) {
	at := w.config.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case d.Err != nil || d.Plan.Refusal != nil:
		w.refusals.add(d, at)
		w.edit()
		w.wake()
	case !d.Plan.Known:
		w.admitted[d.Plan.Pod.UID] = admission{d.Base.Bare(), at, d.Plan.Grant.Sequence}
		w.edit()
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
