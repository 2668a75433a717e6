package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// lookEvery is how often a stream looks for changes that nobody told of, and beatEvery how
	// many looks it is silent at most, so that both sides notice when the other is gone.
	lookEvery = time.Second
	beatEvery = 15
	// breath is the time between two events: what happens meanwhile comes together.
	breath = 50 * time.Millisecond
	// retry is after what time a page tries again when it has lost the agent.
	retry = 500 * time.Millisecond
	// sendTime is how long a reader may take for an event.
	sendTime = 10 * time.Second
)

// Hello is the first event of a stream: from here on it tells what changes. A page asks for
// everything then.
type Hello struct {
	Instance string `json:"instance"`
}

// Change is an event "change": the entries that are new in the history, and how many refusals there
// were in all.
type Change struct {
	Moments  []Moment `json:"moments"`
	Refusals int      `json:"refusals"`
}

// Notice is an event "notice": why what is shown is not in force from now on; empty: it is.
type Notice struct {
	Text string `json:"text"`
}

// notice is Config's.
func (w *Web) notice() string {
	if w.config.Notice == nil {
		return ""
	}
	return w.config.Notice()
}

// serveEvents streams until the reader or the agent ends.
func (w *Web) serveEvents(ctx context.Context, rw http.ResponseWriter, r *http.Request) {
	select {
	case w.streams <- struct{}{}:
		defer func() { <-w.streams }()
	default:
		rw.Header().Set("Retry-After", "5")
		fail(rw, http.StatusServiceUnavailable, fmt.Sprintf("%d pages follow already", maxStreams))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(r.Context(), cancel)
	defer stop()
	s := stream{rw: rw, control: http.NewResponseController(rw), now: w.config.Now}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no")
	// A server's limit for reading a request is no limit for a stream.
	_ = s.control.SetReadDeadline(time.Time{})
	w.follow(ctx, s)
}

// follow sends what changes.
func (w *Web) follow(ctx context.Context, s stream) {
	w.now()
	seen, changed := w.seen(), w.watch()
	if s.send("hello", Hello{w.instance}) != nil {
		return
	}
	look, silent, noticed := w.config.After(lookEvery), 0, ""
	for {
		if now := w.notice(); now != noticed {
			noticed = now
			if s.send("notice", Notice{now}) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
			w.now()
			look = w.config.After(lookEvery)
			if silent++; silent < beatEvery {
				continue
			}
			silent = 0
			if s.write(": still there\n\n") != nil {
				return
			}
			continue
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-w.config.After(breath):
		}
		changed = w.watch() // Before looking, so that nothing is missed.
		change, next := w.since(seen)
		if seen == next {
			continue
		}
		seen, silent = next, 0
		if s.send("change", change) != nil {
			return
		}
	}
}

// position is how far a reader has read.
type position struct {
	generation uint64
	refusals   int
}

func (w *Web) watch() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *Web) seen() position {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := position{refusals: w.refusals.count}
	if last := w.history.last(); last.state != nil {
		p.generation = last.state.Generation()
	}
	return p
}

// since is what is new behind a position, and the position behind that.
func (w *Web) since(p position) (Change, position) {
	w.mu.Lock()
	kept, count := w.history.kept(), w.refusals.count
	w.mu.Unlock()
	next := position{p.generation, count}
	if len(kept) > 0 {
		next.generation = kept[len(kept)-1].state.Generation()
	}
	return Change{documents(kept, after(kept, p.generation)), count}, next
}

// stream is a reader of events.
type stream struct {
	rw      http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
}

func (s stream) send(event string, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("retry: %d\nevent: %s\ndata: %s\n\n", retry.Milliseconds(), event, data))
}

func (s stream) write(text string) error {
	_ = s.control.SetWriteDeadline(s.now().Add(sendTime))
	if _, err := s.rw.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
