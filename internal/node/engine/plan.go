package engine

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Candidate is a pod that asks for admission.
type Candidate struct {
	Pod request.Pod
	// Handed is the text of the grant that was handed over with the pod. If empty, there is none.
	// Only Config.Plan reads it.
	Handed string
}

// reserve takes over the present reservations. Reservations are not written, so the published state
// gets them as well, if nothing else is pending. Lock held.
func (e *Engine) reserve() {
	if e.config.Reserve == nil {
		return
	}
	next := e.config.Reserve(e.next)
	if next == e.next {
		return
	}
	if !slices.Equal(next.Reservations(), e.next.Reservations()) {
		e.reservations++
	}
	published := e.State()
	if published == e.next {
		published = next
	}
	if e.durable == e.next {
		e.durable = next
	}
	e.next = next
	e.publish(published)
}
