package control

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Event is something that happened, with the state of the engine at that moment.
type Event struct {
	Engine Engine
	Of     Occurrence
	// Request is the number of the Answer that the sender waits for. Zero means that it does not
	// wait.
	Request uint64
	// Open is the number of requests of the runtime that are not answered yet. Answered is the time
	// of the last answer. If zero, this connection has had no answer.
	Open     int
	Answered time.Time
	// Promised is the present promise.
	Promised Promise
}

// Promise is the pod to which a place is promised, and the time at which the promise ends. If UID
// is empty, there is no promise.
type Promise struct {
	UID   string
	Until time.Time
}

// Occurrence is what happened: a request of the runtime, the outcome of an action, a timer, or a
// change of the connection.
type Occurrence interface{ on(*step) }

// Engine is what the loop sees of the engine; see package engine.
type Engine struct {
	State *node.State
	// Pending are the grants that are decided and not durable yet. Unreleased are the UIDs of pods
	// whose release is not durable yet.
	Pending    []*node.Grant
	Unreleased []string
	// Version increases with every decision.
	Version uint64
}

// Grant returns the durable grant of a pod, or nil. A pod whose release is decided but not written
// yet has none, because its CPUs may be planned for another pod.
func (e *Engine) Grant(uid string) *node.Grant {
	if g, known := e.State.Grant(uid); known && !slices.Contains(e.Unreleased, uid) {
		return g
	}
	return nil
}
