package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/view"
)

// Moment is an entry of the history for readers.
type Moment struct {
	Generation uint64    `json:"generation"`
	At         time.Time `json:"at"`
	// Change says what is different from the entry before.
	Change string `json:"change"`
}

// History is the answer to /api/history, the oldest entry first.
type History struct {
	Instance string   `json:"instance"`
	Moments  []Moment `json:"moments"`
	// Refusals counts all that there were.
	Refusals int `json:"refusals"`
	// Notice is why what is shown is not in force now.
	Notice string `json:"notice,omitempty"`
}

// State is the answer to /api/state.
type State struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Summary  string    `json:"summary"`
	view.Map
}

// Pod is the answer to /api/pods/{uid}.
type Pod struct {
	view.MapPod
	// Since is when it was admitted; absent where that is not known.
	Since *time.Time `json:"since,omitempty"`
	// Anew tells that the decision is not known: the explanation is of what would be decided if the
	// pod came to this state anew.
	Anew        bool   `json:"anew,omitempty"`
	Explanation string `json:"explanation"`
}

// fail answers with an error.
func fail(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]string{"error": text})
}

func answer(rw http.ResponseWriter, document any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(document) // An error is the reader's, who is gone.
}

// asked returns the moment that a request is about: that of its generation, or the last. If there is
// none it has answered.
func (w *Web) asked(rw http.ResponseWriter, r *http.Request) (moment, bool) {
	last, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return moment{}, false
	}
	text := r.URL.Query().Get("generation")
	if text == "" {
		return last, true
	}
	generation, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("revision %q is not a number", text))
		return moment{}, false
	}
	w.mu.Lock()
	kept := w.history.kept()
	w.mu.Unlock()
	m, found := find(kept, generation)
	if !found {
		fail(rw, http.StatusNotFound, fmt.Sprintf("revision %d is not kept; the history goes from %d to %d",
			generation, kept[0].state.Generation(), last.state.Generation()))
	}
	return m, found
}

func (w *Web) mapOf(m moment) view.Map {
	return view.MapOf(w.config.Machine, w.config.Policy, m.state, m.slots)
}

func (w *Web) serveMap(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	svg, err := w.picture(m)
	if err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	rw.Header().Set("Content-Type", "image/svg+xml")
	_, _ = rw.Write(svg)
}

// picture renders a moment, one at a time. What it returns is not to be changed.
func (w *Web) picture(m moment) ([]byte, error) {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	if w.rendered.state != m.state {
		var svg bytes.Buffer
		if err := w.mapOf(m).SVG(&svg, false); err != nil {
			return nil, err
		}
		w.rendered = rendered{m.state, svg.Bytes()}
	}
	return w.rendered.svg, nil
}

func (w *Web) serveState(rw http.ResponseWriter, r *http.Request) {
	if m, ok := w.asked(rw, r); ok {
		shown := w.mapOf(m)
		answer(rw, State{Instance: w.instance, At: m.at, Summary: shown.Summary(), Map: shown})
	}
}

func (w *Web) serveHistory(rw http.ResponseWriter, _ *http.Request) {
	w.now()
	w.mu.Lock()
	kept, count := w.history.kept(), w.refusals.count
	w.mu.Unlock()
	answer(rw, History{Instance: w.instance, Moments: documents(kept, 0), Refusals: count, Notice: w.notice()})
}

// documents makes entries of the moments from that position on.
func documents(kept []moment, from int) []Moment {
	out := []Moment{}
	for i := from; i < len(kept); i++ {
		m := kept[i]
		entry := Moment{Generation: m.state.Generation(), At: m.at}
		if i > 0 {
			entry.Change = changeText(kept[i-1].state, m.state)
		} else {
			entry.Change = changeText(nil, m.state)
		}
		out = append(out, entry)
	}
	return out
}

func (w *Web) serveRefusals(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	list := w.refusals.list
	w.mu.Unlock()
	out := make([]Refused, 0, len(list))
	for i := len(list) - 1; i >= 0 && r.Context().Err() == nil; i-- {
		out = append(out, list[i].document())
	}
	answer(rw, out)
}

func (w *Web) servePod(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	uid := r.PathValue("uid")
	for _, p := range w.mapOf(m).Pods {
		if p.UID == uid {
			answer(rw, w.podAt(m, p))
			return
		}
	}
	fail(rw, http.StatusNotFound, fmt.Sprintf("no pod with UID %q in revision %d", uid, m.state.Generation()))
}

// podAt tells since when a pod holds what it holds, and why. Planning is a function of the
// state that was asked, so the plan that admitted it is made again.
func (w *Web) podAt(m moment, p view.MapPod) Pod {
	g, _ := m.state.Grant(p.UID)
	from := w.origin(m.state, g)
	return Pod{
		MapPod: p, Since: from.since, Anew: from.anew,
		Explanation: view.ExplanationOf(from.base, from.base.Plan(g.Pod), nil).Text(view.Style{}, false),
	}
}

// origin is how a pod was admitted. A grant of the same UID with another sequence is another admission.
func (w *Web) origin(s *node.State, g *node.Grant) admittedAt {
	w.mu.Lock()
	admitted, seen := w.admitted[g.Pod.UID]
	w.mu.Unlock()
	switch {
	case !seen || admitted.revision != g.Sequence:
		return admittedAt{s.Release(g.Pod.UID), nil, true}
	case admitted.base == nil:
		return admittedAt{s.Release(g.Pod.UID), &admitted.at, true}
	}
	return admittedAt{admitted.base, &admitted.at, false}
}
