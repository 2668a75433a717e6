package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Moment is an entry of the history for readers.
type Moment struct {
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
	// Change describes the difference from the entry before.
	Change string `json:"change"`
}

// History is the answer to /api/history, the oldest entry first.
type History struct {
	Instance string   `json:"instance"`
	Moments  []Moment `json:"moments"`
	// Rejections is the number of all rejections so far.
	Rejections int `json:"rejections"`
	// Notice is the reason why the map is not in force now.
	Notice string `json:"notice,omitempty"`
	// Warning is a problem that the map does not show.
	Warning string `json:"warning,omitempty"`
}

// State is the answer to /api/state.
type State struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Summary  string    `json:"summary"`
	// Moves has a sentence for each move that is under way.
	Moves []string `json:"moves"`
	nodemap.Map
}

// Pod is the answer to /api/pods/{uid}.
type Pod struct {
	nodemap.Pod
	// Since is the time of admission. It is absent if the time is not known.
	Since *time.Time `json:"since,omitempty"`
	// DecisionUnknown is true if the original decision is unknown. The explanation then describes
	// the decision that would be made if the pod came to this state now.
	DecisionUnknown bool   `json:"decisionUnknown,omitempty"`
	Explanation     string `json:"explanation"`
	// Decided has the steps of the decision, for the page.
	Decided []view.Section `json:"decided"`
}

// fail answers with an error.
func fail(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]string{"error": text})
}

// asked returns the moment of the revision that the request names, or the last moment if it names
// none. If there is no such moment, asked has answered the request and returns false.
func (w *Web) asked(rw http.ResponseWriter, r *http.Request) (moment, bool) {
	last, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return moment{}, false
	}
	text := r.URL.Query().Get("revision")
	if text == "" {
		return last, true
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("revision %q is not a number", text))
		return moment{}, false
	}
	w.mu.Lock()
	kept := w.history.kept()
	w.mu.Unlock()
	i := after(kept, revision)
	if i == 0 || kept[i-1].state.Generation() != revision {
		fail(rw, http.StatusNotFound, fmt.Sprintf("revision %d is not kept; the history goes from %d to %d",
			revision, kept[0].state.Generation(), last.state.Generation()))
		return moment{}, false
	}
	return kept[i-1], true
}

func (w *Web) mapOf(m moment) nodemap.Map {
	policy := w.config.Policy
	if m.changed != "" {
		policy = m.changed + "; before: " + policy
	}
	return nodemap.Of(w.config.Machine, policy, m.state, m.slots)
}

func (w *Web) serveMap(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	as, ok := looked(rw, r)
	if !ok {
		return
	}
	if svg, err := w.picture(r.Context(), m, as); well(rw, r, err) {
		send(rw, picture, svg)
	}
}

// picture is the media type of a map.
const picture = "image/svg+xml"

// looked returns how a request wants the map drawn: ?colour=namespace, ?legend=no, ?width=narrow
// or medium.
// If a value is unknown, looked has answered the request and returns false.
func looked(rw http.ResponseWriter, r *http.Request) (look, bool) {
	by, err := nodemap.ParseGrouping(r.URL.Query().Get("colour"))
	if err != nil {
		fail(rw, http.StatusBadRequest, "colour: "+err.Error())
		return look{}, false
	}
	legend := r.URL.Query().Get("legend")
	if legend != "" && legend != "no" {
		fail(rw, http.StatusBadRequest, fmt.Sprintf("legend: %q is unknown: expected no, or nothing", legend))
		return look{}, false
	}
	width, err := nodemap.ParseWidth(r.URL.Query().Get("width"))
	if err != nil {
		fail(rw, http.StatusBadRequest, "width: "+err.Error())
		return look{}, false
	}
	return look{by, legend == "no", width}, true
}

func (w *Web) svg(m moment, as look) ([]byte, error) {
	shown := w.mapOf(m).ColouredBy(as.by).OfWidth(as.width)
	if as.folded {
		shown = shown.WithoutLegend()
	}
	var svg bytes.Buffer
	err := shown.SVG(&svg, false)
	return svg.Bytes(), err
}

func (w *Web) serveState(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	if as, ok := looked(rw, r); ok {
		w.answer(rw, r, func() (any, error) {
			shown := w.mapOf(m).ColouredBy(as.by)
			return State{Instance: w.instance, At: m.at, Summary: shown.Summary(), Moves: shown.Moves(), Map: shown}, nil
		})
	}
}

func (w *Web) serveHistory(rw http.ResponseWriter, r *http.Request) {
	w.now()
	w.mu.Lock()
	kept, count := w.history.kept(), w.rejections.count
	w.mu.Unlock()
	w.answer(rw, r, func() (any, error) {
		now := w.notice()
		return History{Instance: w.instance, Moments: documents(kept, 0), Rejections: count, Notice: now.Text, Warning: now.Warning}, nil
	})
}

// documents returns the entries of the moments from position from on.
func documents(kept []moment, from int) []Moment {
	out := []Moment{}
	for i := from; i < len(kept); i++ {
		m := kept[i]
		entry := Moment{Revision: m.state.Generation(), At: m.at}
		if i > 0 {
			entry.Change = changeText(kept[i-1].state, m.state)
		} else {
			entry.Change = changeText(nil, m.state)
		}
		out = append(out, entry)
	}
	return out
}

func (w *Web) serveRejections(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	list := w.rejections.list
	w.mu.Unlock()
	w.answer(rw, r, func() (any, error) {
		out := make([]Rejected, 0, len(list))
		for i := len(list) - 1; i >= 0 && r.Context().Err() == nil; i-- {
			out = append(out, list[i].document())
		}
		return out, nil
	})
}

func (w *Web) servePod(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	w.answer(rw, r, func() (any, error) { return w.podOf(m, r.PathValue("uid")) })
}

func (w *Web) podOf(m moment, uid string) (Pod, error) {
	for _, p := range w.mapOf(m).Pods {
		if p.UID != uid {
			continue
		}
		g, _ := m.state.Grant(uid)
		from := w.origin(m.state, g)
		e := view.ExplanationOf(from.base, admissionOf(from.base, g), nil)
		return Pod{Pod: p, Since: from.since, DecisionUnknown: !from.decided, Explanation: e.Text(terminal.Style{}, false), Decided: e.Sections()}, nil
	}
	return Pod{}, &problem{http.StatusNotFound, fmt.Sprintf("no pod with UID %q in revision %d", uid, m.state.Generation())}
}

// origin returns the admission of a pod. A grant with the same UID and another sequence is another
// admission.
func (w *Web) origin(s *node.State, g *node.Grant) admittedAt {
	w.mu.Lock()
	admitted, seen := w.admitted[g.Pod.UID]
	w.mu.Unlock()
	switch {
	case !seen || admitted.revision != g.Sequence:
		return admittedAt{s.Release(g.Pod.UID), nil, false}
	case admitted.base == nil || g.Resized != 0: // The decision that admitted it was about another request.
		return admittedAt{s.Release(g.Pod.UID), &admitted.at, false}
	}
	return admittedAt{admitted.base, &admitted.at, true}
}
