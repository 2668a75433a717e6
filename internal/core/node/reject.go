package node

import "github.com/paddock-project/paddock/internal/core/rejection"

// Rejected returns the plan with a rejection in place of its grant, for a reason outside the node:
// the decision cannot be stored. A plan without a new grant stays as it is.
func (p *Plan) Rejected(cause rejection.Cause, detail string) *Plan {
	if p.Grant == nil || p.Known {
		return p
	}
	q := *p
	r := &rejection.Rejection{Detail: detail}
	r.Reason, r.Rule = cause.Names(r.Resource, false)
	q.Grant, q.Rejection, q.Trace.Cause, q.Trace.Taken = nil, r, cause, p.Grant.Containers
	q.Delta.SharedAfter = q.Delta.SharedBefore
	q.unassigned, q.usage, q.devices = Plan{}.unassigned, Plan{}.usage, Plan{}.devices
	return &q
}
