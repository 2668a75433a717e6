// Package web serves the live map of a node: one page, its data, and a stream of changes.
//
// It gets every written state (engine.Observer) and keeps the last states within the limits Kept
// and maxHistoryBytes. No request changes anything. The engine never waits for it: expensive
// answers are computed when a page asks for them, from a state that does not change and without a
// lock. A few are computed at the same time, a few more wait, and all others are rejected at once
// (503). Searches have turns of their own, so a slow search delays no other page. Requests that
// wait or search end when their reader has gone. An answer is sent after its turn, so a slow reader
// delays no other reader. A picture is drawn once for each state.
//
// Explanations are not stored. The web keeps the pod of each decision, the state before the
// decision without its grants (node.State.Bare), and for rejections the account. Planning again
// gives the same answer. So the memory for a decision does not grow with the number of pods on the
// node.
//
// The journal survives a restart. It has rejections with their accounts, and the times of
// admission. The agent writes it and passes it in again; see Journal and Restore.
//
// The page is part of the program and loads nothing from other hosts. Its content security policy
// allows nothing else. It names pods, so it is for clients on the node. internal/base/access guards
// it and everything else that is served at the same address.
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
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/webui"
)

//go:embed page
var page embed.FS

// maxStreams is how many pages can follow the changes at the same time.
const maxStreams = 32

// Config is the environment of the web.
type Config struct {
	// Machine and Policy are names for people.
	Machine, Policy string
	// Snapshot returns the present state, or nil while there is none. It must not block, and
	// several goroutines may call it at any time.
	Snapshot func() *engine.Snapshot
	// Notice returns the reason why the map is not in force, for example another manager that
	// assigns CPUs on this node. An empty reason means that the map is in force. Notice must not
	// block, and several goroutines may call it at any time. If Notice is nil, the map is always in
	// force.
	Notice func() string
	// Warning returns a problem that the map does not show, for example a manifest that cannot be
	// used, or "" if there is none. It has the same limits as Notice. If Warning is nil, there is
	// never a problem.
	Warning func() string
	// Veto returns why the last resize of the pod with that UID was rejected, or "" if it was not.
	// It has the same limits as Notice. If Veto is nil, no resize is ever rejected.
	Veto func(uid string) string
	// Use returns how busy the node in a state is. It may read what was measured, and must not
	// wait. If Use is nil, nothing is measured.
	Use func(*node.State) *view.Use
	// Interruptions returns how often the exclusive CPUs of the node are interrupted. It must not
	// wait. If it is nil, nothing is counted.
	Interruptions func() *view.Interruptions
	// Advise answers in place of explain.Defragment where running pods cannot be moved. It may be
	// nil.
	Advise func(context.Context, *node.State, explain.Wish) (view.Defragmentation, error)
	// Search finds what would admit a rejected pod. If nil, it is explain.Search.
	Search func(context.Context, *node.State, request.Pod) (explain.Remedies, error)
	// Now and After are the clock.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Web observes the engine and serves the map. It is safe for concurrent use.
type Web struct {
	config Config
	// instance lets pages detect that the program was restarted.
	instance string
	streams  chan struct{}

	mu         sync.Mutex // locked only briefly, because the engine waits for it
	history    history
	rejections rejections
	// admitted has the decisions about the present pods, by UID.
	admitted map[string]admission
	changed  chan struct{} // closed with the next change
	// edition counts the changes of the journal. edited has an element after a change.
	edition uint64
	edited  chan struct{}

	// answers are computed from a moment, without a lock.
	answers *webui.Turns
	// pictures have turns of their own, because most readers who wait for a picture wait for the
	// same one.
	pictures *webui.Turns
	draw     func(moment, look) ([]byte, error)
	drawing  sync.Mutex // locked only briefly
	rendered rendered

	// searches take longer than answers. search is explain.Search.
	searches *webui.Turns
	search   func(context.Context, *node.State, request.Pod) (explain.Remedies, error)
	finding  sync.Mutex // locked only briefly
	searched searched
}

const (
	// maxSearches is how many searches run at the same time. Each is limited, ends when its reader
	// has gone, and uses one CPU. As many can wait as two pages request at once: one for a
	// rejection, and a picture for each proposal.
	maxSearches, waitingSearches = 4, 32
	// maxAnswers is how many answers are computed at the same time. Each takes a few milliseconds.
	// A page requests a few at once, and there are up to maxStreams pages.
	maxAnswers, waitingAnswers = 4, 128
	// maxPictures is how many pictures are drawn at the same time. waitingPictures is two for each
	// page.
	maxPictures, waitingPictures = 2, 64
)

// admission has the time at which a pod was admitted, the sequence of its grant, and the state on
// which the decision is based, without its grants. base is nil for a decision before a restart.
type admission struct {
	base     *node.State
	at       time.Time
	revision uint64
}

// rendered has the pictures of the state that was requested last.
type rendered struct {
	state *node.State
	svg   map[look][]byte
}

// look describes how a picture is drawn.
type look struct {
	by     nodemap.Grouping
	folded bool
	width  int // 0 is the usual one
}

var _ engine.Observer = (*Web)(nil)

// New returns a Web without a state.
func New(c Config) *Web {
	w := &Web{
		config: c, instance: rand.Text(), streams: make(chan struct{}, maxStreams),
		admitted: map[string]admission{}, changed: make(chan struct{}), edited: make(chan struct{}, 1),
		answers: webui.NewTurns(maxAnswers, waitingAnswers), pictures: webui.NewTurns(maxPictures, waitingPictures), searches: webui.NewTurns(maxSearches, waitingSearches),
		search: func(ctx context.Context, s *node.State, pod request.Pod) (explain.Remedies, error) {
			return explain.Search(ctx, s, pod)
		},
	}
	if c.Search != nil {
		w.search = c.Search
	}
	w.draw = w.svg
	return w
}

// Search runs the search of another caller as one of the web's: a few run at the same time, and a
// few more wait. The error is webui.ErrBusy if too many are waiting, that of ctx if ctx ends first,
// or that of search.
func (w *Web) Search(ctx context.Context, search func() error) error {
	return w.searches.Do(ctx, search)
}

// Handler returns a handler that serves the page and its data, and passes all other requests to
// next. Streams and computations end with ctx.
func (w *Web) Handler(ctx context.Context, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // The name is in the line above the variable.
	}
	static := func(name string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.ServeFileFS(rw, r, files, name) }
	}
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, webui.Harden(h)) }
	handle("GET /{$}", static("index.html"))
	for _, name := range []string{"page.css", "page.js", "interruptions.js", "pods.js", "rejections.js", "sections.js", "use.js"} {
		handle("GET /"+name, static(name))
	}
	handle("GET /text.js", webui.ServeTextJS)
	handle("GET /map.css", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = rw.Write([]byte(nodemap.StyleSheet))
	})
	computed := func(pattern string, h http.HandlerFunc) { handle(pattern, until(ctx, h)) }
	computed("GET /api/map.svg", w.serveMap)
	computed("GET /api/map", w.servePrinted)
	computed("GET /api/report", w.serveReport)
	computed("GET /api/use", w.serveUse)
	computed("GET /api/interruptions", w.serveInterruptions)
	computed("GET /api/defragment", w.serveDefragment)
	computed("GET /api/state", w.serveState)
	computed("GET /api/history", w.serveHistory)
	computed("GET /api/rejections", w.serveRejections)
	computed("GET /api/rejections/{number}", w.serveRejection)
	computed("GET /api/rejections/{number}/map.svg", w.servePreview)
	computed("GET /api/explain", w.serveExplain)
	computed("GET /api/pods/{uid}", w.servePod)
	handle("GET /rules/{id}", serveRule)
	handle("GET /events", func(rw http.ResponseWriter, r *http.Request) { w.serveEvents(ctx, rw, r) })
	mux.Handle("/", next)
	return mux
}

// until ends the contexts of requests when ctx ends.
func until(ctx context.Context, next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		both, cancel := context.WithCancel(r.Context())
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		next(rw, r.WithContext(both))
	}
}

// Wrote implements engine.Observer. It is called when a state was written.
func (w *Web) Wrote(write engine.Write) {
	if write.Err == nil && write.State != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.record(write.State, write.At)
	}
}

// Released implements engine.Observer. It is called when a pod is gone. The state that was written
// before already shows that.
func (w *Web) Released(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.admitted[uid]; there {
		delete(w.admitted, uid)
		w.edit()
	}
}

// Decided implements engine.Observer. It is called when a pod was admitted, which Wrote has
// reported already, or rejected.
func (w *Web) Decided(d engine.Decision) {
	at := w.config.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case d.Err != nil || d.Plan.Rejection != nil:
		w.rejections.add(d, at)
		w.edit()
		w.wake()
	case !d.Plan.Known:
		w.admitted[d.Plan.Pod.UID] = admission{d.Base.Bare(), at, d.Plan.Grant.Sequence}
		w.edit()
	}
}

// record keeps a state if it is newer than the last one. The caller has locked mu.
func (w *Web) record(s *node.State, at time.Time) {
	if w.history.add(s, at) {
		w.wake()
	}
}

// wake wakes the streams. The caller has locked mu.
func (w *Web) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// now records the present state, because some changes are not written at once. It returns the last
// moment of the history, or false if there is none.
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
