package engine

import (
	"context"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Preview is a decision about a pod that was not made yet.
type Preview struct {
	Decision

	candidate Candidate
}

// Outdated returns a preview with the same plan for which AdmitPreviewed plans the pod again. It is
// for a caller that knows that something other than the state, which Config.Plan reads, has
// changed.
func (v Preview) Outdated() Preview {
	v.Base = nil
	return v
}

// Preview returns the decision that AdmitAll would make now. Nothing changes, and no observer is
// notified.
func (e *Engine) Preview(c Candidate) Preview {
	e.mu.Lock()
	e.reserve()
	base := e.next
	e.mu.Unlock()
	begin := e.config.Now()
	d := e.plan(base, c)
	d.Took = e.config.Now().Sub(begin)
	return Preview{Decision: d, candidate: c}
}

// AdmitPreviewed decides about the pod of a preview, as AdmitAll does. If the state, including its
// reservations, is the same as when the preview was made, the plan of the preview is the decision.
// Otherwise the pod is planned again. Everything else that Config.Plan reads is as old as the
// preview, unless the caller marks the preview as outdated.
func (e *Engine) AdmitPreviewed(ctx context.Context, v Preview) Decision {
	return e.admit(ctx, []Preview{v})[0]
}

func (e *Engine) plan(s *node.State, c Candidate) Decision {
	if e.config.Plan == nil {
		return Decision{Plan: s.Plan(c.Pod), Base: s}
	}
	plan, handed := e.config.Plan(s, c)
	return Decision{Plan: plan, Base: s, Handed: handed}
}
