package webui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// ErrBusy is returned by Do if too many others wait.
var ErrBusy = errors.New("too many others ask at the same time: try again in a few seconds")

// Turns limits what a server computes. A few computations run at the same time, a few more wait,
// and all others are rejected at once. The number of readers therefore affects neither the number
// of CPUs nor the amount of memory that the program uses. Turns is safe for concurrent use.
type Turns struct{ running, present chan struct{} }

// NewTurns returns Turns with limits on the computations that run and that wait.
func NewTurns(running, waiting int) *Turns {
	return &Turns{running: make(chan struct{}, running), present: make(chan struct{}, running+waiting)}
}

// Do calls compute when it gets a turn. It returns ErrBusy if too many others wait, the cause of
// ctx if ctx ends first, or else the error of compute. compute must end with ctx. It must not write
// to a reader, because a slow reader would occupy the turn.
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
	if ctx.Err() != nil { // Both cases of the select were ready.
		return context.Cause(ctx)
	}
	return compute()
}

// Busy answers that no turn is available: 503 with Retry-After, and ErrBusy as the field "error" of
// a JSON object.
func Busy(rw http.ResponseWriter) {
	rw.Header().Set("Retry-After", "2")
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(rw).Encode(map[string]string{"error": ErrBusy.Error()}) // An error means that the reader is gone.
}
