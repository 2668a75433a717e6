package control

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Event is something that happened, with what the engine shows at that moment.
type Event struct {
	Engine Engine
	Of     Occurrence
	// Request is the number of the Answer that is waited for; 0: none is.
	Request uint64
	// Open is how many requests of the runtime are not answered yet, and Answered is the time of
	// the last answer; zero: there was none on this connection.
	Open     int
	Answered time.Time
	// Promised is the promise that there is now.
	Promised Promise
}

// Promise is a pod that a place is promised to, and until when; without a UID there is none.
type Promise struct {
	UID   string
	Until time.Time
}

// Occurrence is what happened: a request of the runtime, the outcome of an action, a time that has
// come, or a change of the connection.
type Occurrence interface{ on(*step) }

// Engine is what the engine shows; see package engine.
type Engine struct {
	State *node.State
	// Pending are the grants that are decided and not durable yet, Unreleased the UIDs of pods
	// whose release is not durable yet.
	Pending    []*node.Grant
	Unreleased []string
	// Version grows with every decision.
	Version uint64
}

// Grant is the durable grant of a pod, or nil. A pod whose release is decided and not yet written
// has none: its CPUs may be planned for another pod.
func (e *Engine) Grant(uid string) *node.Grant {
	if g, known := e.State.Grant(uid); known && !slices.Contains(e.Unreleased, uid) {
		return g
	}
	return nil
}
