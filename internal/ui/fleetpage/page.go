package fleetpage

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/webui"
)

//go:embed page
var files embed.FS

// modules are the scripts that fleet.js imports.
var modules = []string{"tiles.js", "kinds.js", "node.js", "keep.js", "scarce.js"}

// Source provides the fleet.
type Source interface {
	// Present returns the present fleet and a channel that is closed when a new Moment is
	// available. A nil channel means that there will be no other Moment. Present must not block,
	// and several goroutines call it.
	Present() (Moment, <-chan struct{})
}

// Moment is a fleet and whether the source still follows it.
type Moment struct {
	Fleet *Fleet // a different pointer whenever something has changed
	// Since is the time since which the fleet is not followed. If zero, the fleet is followed. Why
	// is the reason.
	Since time.Time
	Why   string
}

// Static is a Source whose fleet does not change.
type Static struct{ Fleet *Fleet }

// Present implements Source.
func (s Static) Present() (Moment, <-chan struct{}) { return Moment{Fleet: s.Fleet}, nil }

// Clock provides the time.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Page serves a fleet. It is safe for concurrent use.
type Page struct {
	source Source
	clock  Clock

	// mu is locked while the tiles of a changed fleet are measured. The first time, 5,000 nodes
	// take 0.1 s; later, only the changed ones are measured.
	mu       sync.Mutex
	last     *snapshot
	revision uint64
	// asking serialises the questions that plan on every node, because one question uses all CPUs
	// that this page may use. asked has an element for each such question that is waiting or being
	// answered.
	asking  *webui.Turns
	asked   chan struct{}
	streams chan struct{}
}

// New returns the page that serves the fleet of source.
func New(source Source, clock Clock) *Page {
	return &Page{
		source: source, clock: clock, asking: webui.NewTurns(1, maxWaiting), asked: make(chan struct{}, maxAsked), streams: make(chan struct{}, maxStreams),
	}
}

// present returns the present fleet with whether the source follows it, a revision that grows with
// every change of the fleet, and the channel that signals the next Moment.
func (p *Page) present() (s *snapshot, followed state, revision uint64, changed <-chan struct{}) {
	p.mu.Lock() // First, so that a reader with an earlier Moment does not come later.
	defer p.mu.Unlock()
	m, changed := p.source.Present()
	if p.last == nil || m.Fleet != p.last.Fleet {
		p.last = m.Fleet.snapshot(p.last)
		p.revision++
	}
	return p.last, stateOf(m), p.revision, changed
}

// Handler returns the handler that serves the page and its data.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	static, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // The name is in the line above the variable.
	}
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, webui.Harden(h)) }
	handle("GET /{$}", func(rw http.ResponseWriter, r *http.Request) { http.ServeFileFS(rw, r, static, "index.html") })
	for _, name := range append([]string{"fleet.css", "fleet.js"}, modules...) {
		handle("GET /"+name, func(rw http.ResponseWriter, r *http.Request) { http.ServeFileFS(rw, r, static, name) })
	}
	handle("GET /text.js", webui.ServeTextJS)
	handle("GET /map.css", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = io.WriteString(rw, nodemap.StyleSheet) // An error means that the reader is gone.
	})
	handle("GET /api/fleet", func(rw http.ResponseWriter, _ *http.Request) {
		fleet, followed, revision, _ := p.present()
		o := fleet.overview(revision)
		o.CanAsk, o.state = true, followed
		answer(rw, http.StatusOK, o)
	})
	handle("GET /events", p.serveEvents)
	handle("GET /api/search", func(rw http.ResponseWriter, r *http.Request) {
		m, _ := p.source.Present()
		answer(rw, http.StatusOK, m.Fleet.search(r.URL.Query().Get("q")))
	})
	handle("GET /api/nodes/{name}", p.ofNode(func(rw http.ResponseWriter, _ *http.Request, f *Fleet, v *fleet.View) {
		answer(rw, http.StatusOK, f.node(v))
	}))
	handle("GET /api/nodes/{name}/map.svg", p.ofNode(serveMap))
	mux.Handle("POST /api/place", http.NewCrossOriginProtection().Handler(webui.Harden(http.HandlerFunc(p.servePlace))))
	return mux
}

// ofNode returns a handler for requests that name a node.
func (p *Page) ofNode(serve func(http.ResponseWriter, *http.Request, *Fleet, *fleet.View)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		m, _ := p.source.Present()
		if v := m.Fleet.view(r.PathValue("name")); v != nil {
			serve(rw, r, m.Fleet, v)
			return
		}
		fail(rw, http.StatusNotFound, "there is no such node in the fleet: "+r.PathValue("name"))
	}
}

// serveMap draws a node, with ?width=narrow or medium for a narrow part of a page.
func serveMap(rw http.ResponseWriter, r *http.Request, f *Fleet, v *fleet.View) {
	width, err := nodemap.ParseWidth(r.URL.Query().Get("width"))
	if err != nil {
		fail(rw, http.StatusBadRequest, "width: "+err.Error())
		return
	}
	var picture bytes.Buffer
	drawn := nodemap.Of(v.Name, f.policy(v.Kind), v.State, nodemap.NextSlots(nil, nil, v.State)).OfWidth(width)
	if err := drawn.SVG(&picture, false); err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	rw.Header().Set("Content-Type", "image/svg+xml")
	_, _ = rw.Write(picture.Bytes()) // An error means that the reader is gone.
}

// maxManifests limits the manifests that a reader may paste, in bytes.
const maxManifests = 1 << 20

const (
	// maxAsked is how many readers can send manifests at the same time. It also bounds the memory
	// for the manifests, in MiB.
	maxAsked = 64
	// maxWaiting is how many readers wait while one is answered.
	maxWaiting = 8
)

// servePlace places the pods that a reader pasted, one after the other. It ends when the reader
// leaves.
func (p *Page) servePlace(rw http.ResponseWriter, r *http.Request) {
	select {
	case p.asked <- struct{}{}:
		defer func() { <-p.asked }()
	default:
		webui.Busy(rw)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxManifests))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(rw, http.StatusRequestEntityTooLarge, "the manifests are larger than 1 MiB")
		return
	case err != nil:
		return // The reader is gone.
	}
	m, _ := p.source.Present()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	limit := p.clock.After(placeTime)
	go func() {
		select {
		case <-limit:
			cancel(errTooLong)
		case <-ctx.Done():
		}
	}()
	var out answers
	var unread error // a fault in the pasted manifests
	err = p.asking.Do(ctx, func() (err error) {
		var pods []fleet.Pod
		var notes []string
		if pods, notes, unread = m.Fleet.Read(ctx, text); unread == nil {
			out, err = m.Fleet.place(ctx, pods, notes)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		late(ctx, rw)
	case errors.Is(err, webui.ErrBusy):
		webui.Busy(rw)
	case unread != nil:
		fail(rw, http.StatusBadRequest, unread.Error())
	case err != nil:
		fail(rw, http.StatusInternalServerError, err.Error())
	default:
		answer(rw, http.StatusOK, out)
	}
}

// placeTime limits how long a question may take. 20 pods on 5,000 nodes take about a second, and
// the reader is waiting for the page.
const placeTime = 20 * time.Second

var errTooLong = fmt.Errorf("there is no answer after %v: paste fewer pods; or others ask at the same time: try again", placeTime)

// late answers that the question took too long. If the reader is gone, it does not answer.
func late(ctx context.Context, rw http.ResponseWriter) {
	if errors.Is(context.Cause(ctx), errTooLong) {
		fail(rw, http.StatusServiceUnavailable, errTooLong.Error())
	}
}

func answer(rw http.ResponseWriter, code int, value any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(value) // An error means that the reader is gone.
}

func fail(rw http.ResponseWriter, code int, why string) {
	answer(rw, code, map[string]string{"error": why})
}
