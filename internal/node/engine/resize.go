package engine

import (
	"context"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ResizeObserver is an Observer that is also notified of resizes. The plan of a resize has what the
// pod had before.
type ResizeObserver interface {
	Resized(Decision)
}

// Resize decides about another request of an admitted pod, which it finds by UID. The pod is
// resized if the plan has a grant and the error is nil. The grant is then durable. A rejection is
// not an error, and nothing has changed. An error wraps ErrNotWritten if the new grant is not
// durable: either the write failed, and the pod has what it had, or ctx ended, and the write goes
// on. A repeated call with the same request finds the resize, or does it. A ResizeObserver is
// notified when the outcome is known, unless the pod already has that size.
func (e *Engine) Resize(ctx context.Context, pod request.Pod) (*node.Plan, error) {
	e.mu.Lock()
	e.reserve()
	base, begin := e.next, e.config.Now()
	plan, next, err := e.fit(base.Resize(pod.UID, pod))
	d := Decision{Plan: plan, Base: base, Took: e.config.Now().Sub(begin), Err: err}
	if err != nil || plan.Rejection != nil {
		e.resized(ctx, d)
		e.mu.Unlock()
		return plan, err
	}
	if next != e.next {
		e.reduced[pod.UID] = true
		e.change(next)
	}
	var done chan error
	if !e.isDurable(plan.Grant) {
		done = e.await(ctx)
	}
	stalls := e.stalls(e.config.Now())
	e.mu.Unlock()
	if done != nil {
		d.Err = outcome(soon(ctx, stalls), done)
		d.Waited = e.config.Now().Sub(begin) - d.Took
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resized(ctx, d)
	return plan, d.Err
}

// resized reports the outcome of a resize. Lock held.
func (e *Engine) resized(ctx context.Context, d Decision) {
	e.logResize(ctx, d.Plan, d.Err)
	if o, learns := e.config.Observer.(ResizeObserver); learns && (!d.Plan.Known || d.Err != nil) {
		o.Resized(d)
	}
}

// fit applies a plan to the decided state. If the result cannot be encoded, it returns a rejection.
// Lock held.
func (e *Engine) fit(plan *node.Plan) (*node.Plan, *node.State, error) {
	next, err := e.next.Apply(plan)
	if err == nil && next != e.next && e.config.Fits != nil {
		if full := e.config.Fits(next); full != nil {
			return plan.Rejected(rejection.StateFull, full.Error()), e.next, nil
		}
	}
	return plan, next, err
}

// isDurable reports whether the published state has the grant, and the pod is not in doubt after an
// uncertain write. Lock held.
func (e *Engine) isDurable(g *node.Grant) bool {
	h, there := e.State().Grant(g.Pod.UID)
	return there && h.Sequence == g.Sequence && h.Resized == g.Resized && !e.doubtful[g.Pod.UID]
}

func (e *Engine) logResize(ctx context.Context, p *node.Plan, err error) {
	log := e.config.Log.With("pod", p.Pod.ID(), "uid", p.Pod.UID)
	switch {
	case err != nil:
		log.ErrorContext(ctx, "pod not resized", "error", err)
	case p.Rejection != nil:
		log.WarnContext(ctx, "resize rejected", "reason", p.Rejection.Reason, "rule", p.Rejection.Rule, "why", p.Rejection.Detail)
	case p.Known:
		log.DebugContext(ctx, "pod already has this size")
	default:
		log.InfoContext(ctx, "pod resized", "cpus", p.Grant.CPUs().String(), "before", p.Before.CPUs().String(), "shared", p.Delta.SharedAfter.String())
	}
}
