package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Admit decides about a pod. The pod is admitted if the plan has a grant and the error is nil. The
// grant is then durable. A rejection is not an error, and nothing has changed. An error wraps
// ErrNotWritten if the grant is not durable: either the write failed, and nothing has changed, or
// ctx ended, and the grant is pending until the write ends. Any other error means that the plan
// breaks an invariant.
func (e *Engine) Admit(ctx context.Context, pod request.Pod) (*node.Plan, error) {
	d := e.admit(ctx, []Preview{{candidate: Candidate{Pod: pod}}})[0]
	return d.Plan, d.Err
}

// AdmitAll is Admit for several pods, in their order and with the grants that were handed over with
// them. It waits once for all of them, and readers see none of them as pending before all are
// decided.
func (e *Engine) AdmitAll(ctx context.Context, pods []Candidate) []Decision {
	previews := make([]Preview, len(pods))
	for i, c := range pods {
		previews[i] = Preview{candidate: c}
	}
	return e.admit(ctx, previews)
}

func (e *Engine) admit(ctx context.Context, previews []Preview) []Decision {
	decisions, waits := make([]Decision, len(previews)), make([]bool, len(previews))
	var done chan error
	e.mu.Lock()
	e.deciding = true
	for i := range previews {
		decisions[i], waits[i] = e.decide(&previews[i])
	}
	e.deciding = false
	if e.Snapshot().Version != e.version+e.reservations {
		e.publish(e.State())
	}
	begin := e.config.Now()
	stalls := e.stalls(begin)
	if slices.Contains(waits, true) {
		done = e.await(ctx)
	}
	e.mu.Unlock()
	ctx = soon(ctx, stalls)
	var err error
	var waited time.Duration
	if done != nil {
		err = outcome(ctx, done)
		waited = e.config.Now().Sub(begin)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range decisions {
		d := &decisions[i]
		if waits[i] {
			d.Err, d.Waited = err, waited
		}
		// If the caller did not see the outcome of a decision, it is remembered until a caller
		// does.
		switch uid := previews[i].candidate.Pod.UID; {
		case errors.Is(d.Err, errStillWriting) && !d.Plan.Known:
			late := *d
			late.Handed = nil
			e.late[uid] = late
		case d.Plan.Grant != nil:
			delete(e.late, uid)
		}
		e.config.Observer.Decided(*d)
		e.log(ctx, *d)
	}
	return decisions
}

// decide plans a pod and applies the plan. It reports whether the caller has to wait for the grant.
// Lock held.
func (e *Engine) decide(v *Preview) (_ Decision, wait bool) {
	pod := &v.candidate.Pod
	e.cancelRelease(pod.UID)
	e.reserve()
	base := e.next
	begin := e.config.Now()
	d := v.Decision
	if d.Base != base {
		d = e.plan(base, v.candidate)
	}
	plan, next, err := e.fit(d.Plan)
	d.Plan, d.Err, d.Took = plan, err, d.Took+e.config.Now().Sub(begin)
	switch {
	case err != nil || plan.Rejection != nil:
		return d, false
	case next != base:
		e.change(next)
		return d, true
	case !plan.Known:
		return d, false
	}
	if late, there := e.late[pod.UID]; there {
		d = late
		d.Err = nil
	}
	return d, !e.isDurable(plan.Grant)
}

// cancelRelease cancels the release of a pod that asks for admission again, unless a write that
// contains the release is under way or something was decided on top of it. Lock held.
func (e *Engine) cancelRelease(uid string) {
	durable := e.State()
	if h, there := durable.Grant(uid); e.writing || !there || !isReleased(h, e.next) {
		return
	}
	pending, unreleased := beyond(durable, e.next)
	if len(pending) > 0 {
		return
	}
	next := durable
	for _, gone := range unreleased {
		if gone != uid {
			next = next.Release(gone)
		}
	}
	e.change(next)
}
