package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// serveDefragment serves the moves of running pods that make room for a larger pod. It runs as a
// search, so the limit is shared with remedies.
func (w *Web) serveDefragment(rw http.ResponseWriter, r *http.Request) {
	m, ok := w.asked(rw, r)
	if !ok {
		return
	}
	query := r.URL.Query()
	wish := explain.Wish{Moves: explain.MaxDefragMoves, Bytes: 1 << 62, All: query.Get("all") == "true"}
	if text := query.Get("moves"); text != "" {
		var err error
		if wish.Moves, err = strconv.Atoi(text); err != nil || wish.Moves < 1 || wish.Moves > explain.MaxDefragMoves {
			fail(rw, http.StatusBadRequest, fmt.Sprintf("moves %.80q: expected a number from 1 to %d", text, explain.MaxDefragMoves))
			return
		}
	}
	if text := query.Get("bytes"); text != "" {
		var err error
		if wish.Bytes, err = strconv.ParseInt(text, 10, 64); err != nil || wish.Bytes < 0 {
			fail(rw, http.StatusBadRequest, fmt.Sprintf("bytes %.80q: expected a number of bytes", text))
			return
		}
	}
	body, ok := w.compute(rw, r, w.searches, func() ([]byte, error) {
		var answer view.Defragmentation
		var err error
		if w.config.Advise != nil {
			answer, err = w.config.Advise(r.Context(), m.state, wish)
		} else {
			answer.Defragmentation, _, err = explain.Defragment(r.Context(), m.state, wish)
		}
		if err != nil {
			return nil, err
		}
		answer.Machine, answer.Policy = w.config.Machine, w.config.Policy
		return document(answer)
	})
	if ok {
		rw.Header().Set(NoticeHeader, w.notice().Text)
		send(rw, "application/json", body)
	}
}
