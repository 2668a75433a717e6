package fleetpage

import (
	"fmt"
	"net/http"
	"time"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

const (
	// breath is the time between two events. Changes during that time become one event.
	breath = time.Second
	// beat is the longest time without a message. It lets both sides notice that the other is gone.
	beat = 15 * time.Second
	// retry is the time after which a page that lost its server tries again.
	retry = time.Second
	// maxStreams is the number of pages that can follow the fleet at the same time.
	maxStreams = 64
)

// state reports whether the fleet is followed.
type state struct {
	// Since is the time since which the fleet is not followed, in RFC 3339. If empty, the fleet is
	// followed. Why is the reason.
	Since string `json:"since"`
	Why   string `json:"why"`
}

func stateOf(m Moment) state {
	if m.Since.IsZero() {
		return state{Why: m.Why}
	}
	return state{m.Since.UTC().Format(time.RFC3339), m.Why}
}

// hello is the first event of a stream. It has the revision that later events continue from.
type hello struct {
	Revision uint64 `json:"revision"`
}

// serveEvents streams the changes until the reader is gone. The events are:
//
//	hello        the revision; a page with another revision reads everything again
//	change       the tiles that differ, and what is shown beside them
//	everything   the revision; the page must read everything again
//	state        whether the fleet is followed
func (p *Page) serveEvents(rw http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		rw.Header().Set("Retry-After", "5")
		fail(rw, http.StatusServiceUnavailable, fmt.Sprintf("%d pages follow already", maxStreams))
		return
	}
	s := webui.NewStream(rw, p.clock.Now, retry)
	fleet, now, revision, changed := p.present()
	seen, shown := fleet, state{}
	err := s.Send("hello", hello{revision})
	for silent := p.clock.After(beat); err == nil; {
		if now != shown {
			shown = now
			err = s.Send("state", now)
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-silent:
			silent = p.clock.After(beat)
			err = s.Beat()
			continue
		case <-changed:
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.clock.After(breath):
		}
		if fleet, now, revision, changed = p.present(); fleet == seen {
			continue
		}
		if c, some := fleet.since(seen, revision); some {
			err = s.Send("change", c)
		} else {
			err = s.Send("everything", hello{revision})
		}
		seen = fleet
	}
}
