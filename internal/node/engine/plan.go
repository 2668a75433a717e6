package engine

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Candidate is a pod that asks for admission.
type Candidate struct {
	Pod request.Pod
	// Handed is the text of the grant with which the pod comes; empty: none. Only Config.Plan reads
	// it.
	Handed string
}

// reserve takes over what is reserved now. Nothing is to be written for that, so the published
// state has it as well, if nothing else is pending. Lock held.
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
