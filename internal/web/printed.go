package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/terminal"
	"github.com/paddock-project/paddock/internal/view"
)

// NoticeHeader is in the answers of what commands print: why the state is not in force now. Without
// it, it is.
const NoticeHeader = "Paddock-Notice"

// MinWidth and MaxWidth limit a map in a terminal, in characters. Below the least nothing is
// legible; the most is a wall of screens.
const (
	MinWidth     = 20
	defaultWidth = 120
	MaxWidth     = 1000
)

// servePrinted serves the map as "paddock map" prints it: in a form, for a terminal of a width.
func (w *Web) servePrinted(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	query, width := r.URL.Query(), defaultWidth
	if text := query.Get("width"); text != "" {
		var err error
		if width, err = strconv.Atoi(text); err != nil || width < MinWidth || width > MaxWidth {
			fail(rw, http.StatusBadRequest, fmt.Sprintf("width %q: want a number from %d to %d", text, MinWidth, MaxWidth))
			return
		}
	}
	var printed bytes.Buffer
	var err error
	switch shown, form := w.mapOf(m), query.Get("form"); form {
	case "term":
		printed.WriteString(shown.Term(terminal.Style{Color: query.Get("color") == "true", Width: width}))
	case "svg":
		err = shown.SVG(&printed, true)
	case "html":
		err = shown.HTML(&printed)
	case "json":
		err = json.NewEncoder(&printed).Encode(shown)
	default:
		fail(rw, http.StatusBadRequest, fmt.Sprintf("form %q: want term, svg, html or json", form))
		return
	}
	if err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	// For a command, whatever the form: a browser shows it as text.
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set(NoticeHeader, w.notice().Text)
	_, _ = rw.Write(printed.Bytes()) // An error is the reader's, who is gone.
}

// serveReport serves how the node is divided. It searches for the largest pods, as many at a time
// as for remedies.
func (w *Web) serveReport(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	select {
	case <-r.Context().Done():
		return
	case w.searches <- struct{}{}:
	}
	defer func() { <-w.searches }()
	usage, err := explain.Usage(r.Context(), m.state)
	if err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	rw.Header().Set(NoticeHeader, w.notice().Text)
	answer(rw, view.Report{Machine: w.config.Machine, Policy: w.config.Policy, Usage: usage})
}
