package webui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// ErrBusy is returned by Do if too many others wait.
var ErrBusy = errors.New("too many others ask at the same time: try again in a few seconds")

// Turns limits what a server computes: a few computations run at a time, a few more wait, and all
// others are rejected at once. So the number of readers decides neither how many CPUs nor how much
// memory the program takes. It is safe for use by several goroutines.
type Turns struct{ running, present chan struct{} }

// NewTurns lets so many computations run at a time, and so many wait.
func NewTurns(running, waiting int) *Turns {
	return &Turns{running: make(chan struct{}, running), present: make(chan struct{}, running+waiting)}
}

// Do calls compute when there is room. The error is ErrBusy, or that of ctx if it ends first; else
// it is compute's. Compute must end with ctx, and must not write to a reader: a slow one would keep
// the room from all others.
func (t *Turns) Do(ctx context.Context, compute func() error) error {
	select {
	case t.present <- struct{}{}:
		defer func() { <-t.present }()
	default:
		return ErrBusy
	}
	select {
	case t.running <- struct{}{}:
		defer func() { <-t.running }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // Both were possible.
		return context.Cause(ctx)
	}
	return compute()
}

// Busy answers that there is no room: 503 with Retry-After, and ErrBusy as the field "error" of a
// JSON object.
func Busy(rw http.ResponseWriter) {
	rw.Header().Set("Retry-After", "2")
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(rw).Encode(map[string]string{"error": ErrBusy.Error()}) // An error is the reader's, who is gone.
}
