package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

// problem is an error that the reader's request caused.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// compute computes the body of an answer when it gets a turn. It returns false if there is no body.
// In that case it has answered with the error, unless the reader has gone. The caller sends the
// body after the turn.
func (w *Web) compute(rw http.ResponseWriter, r *http.Request, turns *webui.Turns, body func() ([]byte, error)) (out []byte, ok bool) {
	err := turns.Do(r.Context(), func() (err error) {
		out, err = body()
		return err
	})
	return out, well(rw, r, err)
}

// well reports whether there is an answer to send. If not, it has answered with the error, unless
// the reader has gone.
func well(rw http.ResponseWriter, r *http.Request, err error) bool {
	var wrong *problem
	switch {
	case r.Context().Err() != nil:
		return false
	case err == nil:
		return true
	case errors.Is(err, webui.ErrBusy):
		webui.Busy(rw)
	case errors.As(err, &wrong):
		fail(rw, wrong.status, wrong.text)
	default:
		fail(rw, http.StatusInternalServerError, err.Error())
	}
	return false
}

// document encodes a body as JSON.
func document(value any) ([]byte, error) {
	var out bytes.Buffer
	err := json.NewEncoder(&out).Encode(value)
	return out.Bytes(), err
}

// answer computes a document and sends it.
func (w *Web) answer(rw http.ResponseWriter, r *http.Request, value func() (any, error)) {
	body, ok := w.compute(rw, r, w.answers, func() ([]byte, error) {
		v, err := value()
		if err != nil {
			return nil, err
		}
		return document(v)
	})
	if ok {
		send(rw, "application/json", body)
	}
}

func send(rw http.ResponseWriter, kind string, body []byte) {
	rw.Header().Set("Content-Type", kind)
	_, _ = rw.Write(body) // An error means that the reader is gone.
}

// picture renders a moment, or returns the picture if it was rendered before. The caller must not
// change the result.
func (w *Web) picture(ctx context.Context, m moment, as look) ([]byte, error) {
	svg := w.drawn(m, as)
	if svg != nil {
		return svg, nil
	}
	err := w.pictures.Do(ctx, func() (err error) {
		if svg = w.drawn(m, as); svg != nil { // Another reader rendered it while this one waited.
			return nil
		}
		if svg, err = w.draw(m, as); err == nil {
			w.keep(m, as, svg)
		}
		return err
	})
	return svg, err
}

// drawn returns the picture if it was rendered before, or else nil.
func (w *Web) drawn(m moment, as look) []byte {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	if w.rendered.state != m.state {
		return nil
	}
	return w.rendered.svg[as]
}

func (w *Web) keep(m moment, as look, svg []byte) {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	if w.rendered.state != m.state {
		w.rendered = rendered{m.state, map[look][]byte{}}
	}
	w.rendered.svg[as] = svg
}
