// Package authorizer distinguishes a missing permission from an API server that has just started.
//
// An API server answers requests before its authorizer has read the roles. Until then, for some
// seconds after each start, it forbids what it allows afterwards (403). "Forbidden" therefore means
// that a permission is missing only if it lasts. A program that repeats a request passes each
// answer to a Watch, which treats "forbidden" as a missing permission once it has lasted for Grace.
// A program that sends a single request also asks for /readyz, which needs no permission and is not
// ready until the roles are read (Unready).
//
// The error for an API server that is starting wraps the answer, but does not show its text.
package authorizer

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// Grace is how long "forbidden" does not count as a missing permission. An API server reads its
	// roles within seconds, and within half a minute if it has thousands or is busy.
	Grace = 30 * time.Second
	// Longest limits Grace for an API server that keeps restarting: if no request has been allowed
	// for this long since the first one that was forbidden, "forbidden" counts at once.
	Longest = 5 * time.Minute
)

// StartingError is the error for an API server that forbids a request, and may be starting.
type StartingError struct {
	Err error
	why string
}

// Error leaves out the text of Err, which reads like a missing permission.
func (e *StartingError) Error() string { return "the API server is starting: " + e.why }

// Unwrap returns the answer of the API server.
func (e *StartingError) Unwrap() error { return e.Err }

// IsStarting reports whether err is about an API server that is starting.
func IsStarting(err error) bool {
	var starting *StartingError
	return errors.As(err, &starting)
}

// Unready returns a StartingError for a forbidden request if readyz, the status of the answer to
// /readyz, is that of an API server that is not ready. Otherwise it returns err. Without an answer,
// readyz is zero.
func Unready(err error, readyz int) error {
	if !apierrors.IsForbidden(err) || readyz != http.StatusInternalServerError && readyz != http.StatusServiceUnavailable {
		return err
	}
	return &StartingError{err, fmt.Sprintf("it answers /readyz with %d, and forbids requests until it has read its roles; try again in some seconds", readyz)}
}

// Answer is the outcome of a request.
type Answer int

// The answers. Failed is a request that did not end with a decision of the authorizer, for example
// because the API server does not answer.
const (
	Allowed Answer = iota
	Failed
	Forbidden
)

// Watch follows the answers to requests that need the same permissions. The zero Watch has seen no
// answer. It must not be used by several goroutines at the same time.
type Watch struct {
	// forbidden is the time of the first answer in the current run of Forbidden answers. first is
	// the time of the first Forbidden since the last Allowed. They are zero if there is none.
	forbidden, first, announced time.Time
}

// Starting records an answer. It reports whether the answer is Forbidden and not yet a missing
// permission.
func (w *Watch) Starting(a Answer, now time.Time) bool {
	switch a {
	case Allowed:
		w.forbidden, w.first = time.Time{}, time.Time{}
		return false
	case Failed: // It may restart: its next start has a time of its own.
		w.forbidden = time.Time{}
		return false
	case Forbidden:
	}
	if w.first.IsZero() {
		w.first = now
	}
	if w.forbidden.IsZero() {
		w.forbidden = now
	}
	return now.Sub(w.forbidden) < Grace && now.Sub(w.first) < Longest
}

// Judge records the answer err. If it is Forbidden and not yet a missing permission, Judge returns
// a StartingError, and otherwise err.
func (w *Watch) Judge(err error, now time.Time) error {
	a := Allowed
	switch {
	case apierrors.IsForbidden(err):
		a = Forbidden
	case err != nil:
		a = Failed
	}
	if w.Starting(a, now) {
		return &StartingError{err, fmt.Sprintf("it forbids requests until it has read its roles; if it still does after %v, a permission is missing", Grace)}
	}
	return err
}

// Announce reports whether to log that the API server is starting: at most once in Longest, so that
// an API server whose answers alternate does not fill the log.
func (w *Watch) Announce(now time.Time) bool {
	if !w.announced.IsZero() && now.Sub(w.announced) < Longest {
		return false
	}
	w.announced = now
	return true
}
