package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrRejected is wrapped by every error of Resolve: a kubelet with this
// configuration would not start on this machine, or would go wrong on it.
var ErrRejected = errors.New("configuration rejected")

// Problem is one reason to reject a configuration.
type Problem struct {
	// Field is the path of the field at fault, such as
	// "cpuManagerPolicyOptions[align-by-socket]".
	Field string
	// Why is what was asked and what is there, Fix what to change.
	Why, Fix string
	// Kubelet is what the kubelet logs for it; empty where it has no sentence of its own.
	Kubelet string
}

// String is one line for people.
func (p Problem) String() string {
	line := p.Field + ": " + p.Why + "; " + p.Fix
	if p.Kubelet != "" {
		line += " (kubelet: " + p.Kubelet + ")"
	}
	return line
}

// RejectedError is everything that is wrong with a configuration. It wraps ErrRejected.
type RejectedError struct {
	// Name is the file, or whatever else the configuration came from.
	Name     string
	Problems []Problem
}

func (e *RejectedError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("%s: %v: %s", e.Name, ErrRejected, e.Problems[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v for %d reasons:", e.Name, ErrRejected, len(e.Problems))
	for i, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, p)
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrRejected) true.
func (e *RejectedError) Unwrap() error { return ErrRejected }
