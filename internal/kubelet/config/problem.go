package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// ErrRejected is wrapped by every error of Resolve. It means that a kubelet with this configuration
// would not start on this machine, or would malfunction on it.
var ErrRejected = errors.New("configuration rejected")

// Problem is one reason why a configuration is rejected.
type Problem struct {
	// Field is the path of the invalid field, such as "cpuManagerPolicyOptions[align-by-socket]".
	Field string
	// Why describes what was asked for and what was found. Fix describes what to change.
	Why, Fix string
	// Kubelet is the message that the kubelet logs. It is empty if the kubelet has no message for
	// this problem.
	Kubelet string
	// File is the drop-in that set the field. It is empty if the field is not of a drop-in.
	File string
}

// String returns the problem in one line.
func (p Problem) String() string {
	line := p.Field + ": " + p.Why + "; " + p.Fix
	if p.Kubelet != "" {
		line += " (kubelet: " + p.Kubelet + ")"
	}
	return line
}

// RejectedError has all problems of a configuration. It wraps ErrRejected.
type RejectedError struct {
	// Name is the name of the file, or of another source of the configuration.
	Name     string
	Problems []Problem
}

func (e *RejectedError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("%s: %v: %s", cmp.Or(e.Problems[0].File, e.Name), ErrRejected, e.Problems[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v for %d reasons:", e.Name, ErrRejected, len(e.Problems))
	for i, p := range e.Problems {
		from := ""
		if p.File != "" {
			from = p.File + ": "
		}
		fmt.Fprintf(&b, "\n  %d. %s%s", i+1, from, p)
	}
	return b.String()
}

// Unwrap returns ErrRejected.
func (e *RejectedError) Unwrap() error { return ErrRejected }
