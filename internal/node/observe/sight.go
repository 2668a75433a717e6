package observe

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Sight is the state of a node at one time.
type Sight struct {
	State *node.State
	// Requests has, by UID, the amounts that the kubelet counts for each pod that it has admitted
	// and that has not ended. Allocatable has the amounts of the Node for all of them, or is nil if
	// they are not known. Resources that it does not list are not known, except for CPU time,
	// memory and pods.
	Requests    map[string]request.Totals
	Allocatable *request.Totals
}

// OutOf begins the reason of a pod for which the Node has too little of a resource. The rest is the
// name of the resource.
const OutOf = "OutOf"

// position is the moment before a decision: the assignments of the pods, and the sum of their
// requests.
type position struct {
	*Sight

	state *node.State
	used  request.Totals
	// counts has the pods that are added to used when they are admitted. Nil means all pods.
	counts map[string]request.Totals
}

// at returns the position of a sight.
func (s *Sight) at() position {
	p := position{Sight: s, state: s.State}
	for _, r := range s.Requests {
		p.used = p.used.Plus(r)
	}
	return p
}

// without returns the position of a sight without the pods that have ended until now. gone is the
// number of those that had assignments, and ended the number of all that the kubelet had counted.
func (s *Sight) without(now *Sight) (p position, gone, ended int) {
	p = position{Sight: s, state: s.State, counts: now.Requests}
	for g := range s.State.AllGrants() {
		if _, there := now.State.Grant(g.Pod.UID); !there {
			p.state = p.state.Release(g.Pod.UID)
			gone++
		}
	}
	p.state = p.state.Swept()
	for uid, r := range s.Requests {
		if _, there := now.Requests[uid]; there {
			p.used = p.used.Plus(r)
		} else {
			ended++
		}
	}
	return p, gone, ended
}

// prediction is the prediction of one decision.
type prediction struct {
	of   position
	plan *node.Plan
	// short is the resource of which the Node has too little for the pod, or "" if it has enough.
	short request.Resource
	// preempts is set if the kubelet evicts other pods then, instead of rejecting this one.
	preempts bool
}

// predict predicts a decision. A kubelet asks its managers first, then compares the requests of all
// pods with the allocatable amounts of the Node (R-ST-60), and then checks features.
func (p position) predict(d *Decision) prediction {
	out := prediction{of: p, plan: p.state.Plan(d.Pod)}
	if p.Allocatable == nil || out.plan.Rejection != nil && out.plan.Trace.Cause != rejection.ResourcesOff {
		return out
	}
	if out.short = p.Allocatable.Short(p.used, d.Requests); out.short != "" && d.Critical {
		out.short, out.preempts = "", true
	}
	return out
}

// reason returns the reason of a predicted rejection, or "".
func (p *prediction) reason() string {
	switch {
	case p.short != "":
		return OutOf + p.short
	case p.plan.Rejection != nil:
		return string(p.plan.Rejection.Reason)
	}
	return ""
}

// grant returns what the pod gets, or nil if it is rejected.
func (p *prediction) grant() *node.Grant {
	if p.reason() != "" {
		return nil
	}
	return p.plan.Grant
}

// then returns the position after a decision. A rejected pod has no effect: the kubelet removes it
// before it admits the next one.
func (p *prediction) then(d *Decision) (position, error) {
	next := p.of
	state, err := p.of.state.Apply(p.plan)
	if err != nil || d.Reason != "" {
		return next, err
	}
	next.state = state
	if _, counts := next.counts[d.Pod.UID]; counts || next.counts == nil {
		next.used = next.used.Plus(d.Requests)
	}
	return next, nil
}
