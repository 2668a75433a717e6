package engine

import (
	"context"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Move makes a change of the places of a pod durable. f is node.State.BeginMove or EndMove, after
// any check of the state that it gets, which is the one that was decided last. f must be pure. Move
// waits until the change is written or ctx ends. If the error is that of f, or of a state that
// cannot be encoded, nothing has changed. If it wraps ErrNotWritten, either the write failed, and
// the pod has what it had, or ctx ended first, and the write goes on. Until the write ends, readers
// see the pod as it was. If the release of a pod is decided, the end of its move changes nothing:
// the release takes both places.
func (e *Engine) Move(ctx context.Context, uid string, f func(*node.State) (*node.State, error)) error {
	e.mu.Lock()
	e.reserve()
	next, err := f(e.next)
	if err == nil && next != e.next && e.config.Fits != nil {
		err = e.config.Fits(next)
	}
	if err != nil {
		e.mu.Unlock()
		return err
	}
	if next != e.next {
		e.reduced[uid] = true
		e.change(next)
	}
	var done chan error
	if g, there := next.Grant(uid); there && !e.isDurable(g) {
		done = e.await(ctx)
	}
	e.mu.Unlock()
	if done == nil {
		return nil
	}
	return outcome(ctx, done)
}
