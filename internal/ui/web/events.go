package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

const (
	// lookEvery is how often a stream looks for changes without an event. beatEvery is the largest
	// number of looks without a message. It lets both sides notice that the other is gone.
	lookEvery = time.Second
	beatEvery = 15
	// breath is the time between two events. Changes during that time become one event.
	breath = 50 * time.Millisecond
	// retry is the time after which a page that lost the agent tries again.
	retry = 500 * time.Millisecond
)

// Hello is the first event of a stream. All later changes have events, so a page reads everything
// when it gets Hello.
type Hello struct {
	Instance string `json:"instance"`
}

// Change is the event "change". It has the new entries of the history and the number of all
// rejections so far.
type Change struct {
	Moments    []Moment `json:"moments"`
	Rejections int      `json:"rejections"`
}

// Notice is the event "notice". Text is the reason why the map is not in force from now on. If
// empty, the map is in force.
type Notice struct {
	Text string `json:"text"`
	// Warning is a problem that the map does not show from now on. If empty, there is none.
	Warning string `json:"warning,omitempty"`
}

// notice returns the present notice.
func (w *Web) notice() (n Notice) {
	if w.config.Notice != nil {
		n.Text = w.config.Notice()
	}
	if w.config.Warning != nil {
		n.Warning = w.config.Warning()
	}
	return n
}

// serveEvents streams the changes until the reader or the agent ends.
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
	s := webui.NewStream(rw, w.config.Now, retry)
	w.follow(ctx, s)
}

// follow sends the changes.
func (w *Web) follow(ctx context.Context, s webui.Stream) {
	w.now()
	seen, changed := w.seen(), w.watch()
	if s.Send("hello", Hello{w.instance}) != nil {
		return
	}
	look, silent, noticed := w.config.After(lookEvery), 0, Notice{}
	for {
		if now := w.notice(); now != noticed {
			noticed = now
			if s.Send("notice", now) != nil {
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
			if s.Beat() != nil {
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
		changed = w.watch() // Called before w.since, so that no change is missed.
		change, next := w.since(seen)
		if seen == next {
			continue
		}
		seen, silent = next, 0
		if s.Send("change", change) != nil {
			return
		}
	}
}

// position is the point up to which a reader has read.
type position struct {
	revision   uint64
	rejections int
}

func (w *Web) watch() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *Web) seen() position {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := position{rejections: w.rejections.count}
	if last := w.history.last(); last.state != nil {
		p.revision = last.state.Generation()
	}
	return p
}

// since returns the changes after a position, and the new position.
func (w *Web) since(p position) (Change, position) {
	w.mu.Lock()
	kept, count := w.history.kept(), w.rejections.count
	w.mu.Unlock()
	next := position{p.revision, count}
	if len(kept) > 0 {
		next.revision = kept[len(kept)-1].state.Generation()
	}
	return Change{documents(kept, after(kept, p.revision)), count}, next
}
