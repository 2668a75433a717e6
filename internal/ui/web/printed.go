package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// NoticeHeader is a header of the answers that commands print. Its value is the reason why the
// state is not in force. If it is absent or empty, the state is in force.
const NoticeHeader = "Paddock-Notice"

// MinWidth and MaxWidth limit the width of a map in a terminal, in characters. Below MinWidth
// nothing is legible. MaxWidth is as wide as a wall of screens.
const (
	MinWidth     = 20
	defaultWidth = 120
	MaxWidth     = 1000
)

// servePrinted serves the map as "paddock map" prints it, in the requested form and for a terminal
// of the requested width.
func (w *Web) servePrinted(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	query, width := r.URL.Query(), defaultWidth
	if text := query.Get("width"); text != "" {
		var err error
		if width, err = strconv.Atoi(text); err != nil || width < MinWidth || width > MaxWidth {
			fail(rw, http.StatusBadRequest, fmt.Sprintf("width %q: expected a number from %d to %d", text, MinWidth, MaxWidth))
			return
		}
	}
	color := query.Get("color") == "true"
	printed, ok := w.compute(rw, r, w.answers, func() ([]byte, error) { return w.printed(m, query.Get("form"), color, width) })
	if !ok {
		return
	}
	rw.Header().Set(NoticeHeader, w.notice().Text)
	// The answer is for a command in every form. A browser shows it as text.
	send(rw, "text/plain; charset=utf-8", printed)
}

func (w *Web) printed(m moment, form string, color bool, width int) ([]byte, error) {
	var printed bytes.Buffer
	var err error
	shown := w.mapOf(m)
	if last, _ := w.now(); w.config.Interruptions != nil && last.state == m.state {
		perSecond := map[int]float64{}
		for id, of := range w.config.Interruptions().CPUs {
			perSecond[id] = of.PerSecond
		}
		shown = shown.WithInterruptions(perSecond)
	}
	switch form {
	case "term":
		printed.WriteString(shown.Term(terminal.Style{Color: color, Width: width}))
	case "svg":
		err = shown.SVG(&printed, true)
	case "html":
		err = shown.HTML(&printed)
	case "json":
		err = json.NewEncoder(&printed).Encode(shown)
	default:
		err = &problem{http.StatusBadRequest, fmt.Sprintf("form %q: expected term, svg, html or json", form)}
	}
	return printed.Bytes(), err
}

// serveReport serves how the node is used. It searches for the largest pods, so it takes a turn of
// searches, as remedies do.
func (w *Web) serveReport(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	body, ok := w.compute(rw, r, w.searches, func() ([]byte, error) {
		usage, err := explain.Usage(r.Context(), m.state)
		if err != nil {
			return nil, err
		}
		report := view.ReportOf(w.config.Machine, w.config.Policy, m.state, usage)
		if w.config.Use != nil {
			report.ReservedAndIdle = &w.config.Use(m.state).OwnersUse
		}
		return document(report)
	})
	if ok {
		rw.Header().Set(NoticeHeader, w.notice().Text)
		send(rw, "application/json", body)
	}
}

// serveInterruptions serves the interruptions of exclusive CPUs. They concern the present state,
// too.
func (w *Web) serveInterruptions(rw http.ResponseWriter, r *http.Request) {
	if w.config.Interruptions == nil {
		fail(rw, http.StatusNotFound, "this agent does not count what interrupts CPUs: it does not run on the machine that it shows")
		return
	}
	w.answer(rw, r, func() (any, error) { return w.config.Interruptions(), nil })
}

// serveUse serves how busy the node is. The answer concerns the present state, because no earlier
// measurements are kept.
func (w *Web) serveUse(rw http.ResponseWriter, r *http.Request) {
	last, there := w.now()
	if !there {
		fail(rw, http.StatusServiceUnavailable, "there is no state yet")
		return
	}
	if w.config.Use == nil {
		fail(rw, http.StatusNotFound, "this agent does not measure how busy CPUs are: its runtime is simulated")
		return
	}
	w.answer(rw, r, func() (any, error) { return w.config.Use(last.state), nil })
}
