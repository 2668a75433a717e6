package explain

import "github.com/paddock-project/paddock/internal/core/node"

// Decision is the way of one admission, in the order of the flow. What the pod got at its end, or
// why it got nothing, are the plan's Grant and Rejection.
type Decision struct {
	Asks Asks `json:"asks"`
	// Divisions are the arithmetic of a pod-level pool, one for each resource.
	Divisions []Division `json:"divisions,omitempty"`
	// Alignments are the questions to the Topology Manager, in the order in which they were put.
	Alignments []Alignment `json:"alignments,omitempty"`
	// Picks are what was taken, and why there. Of a rejected pod: what its containers had before
	// one of them could not be served; the pod has nothing of it.
	Picks []Pick  `json:"picks,omitempty"`
	Quota []Quota `json:"quota,omitempty"`
}

// Amount is a quantity of one resource: CPUs, bytes or devices.
type Amount struct {
	Resource string `json:"resource"`
	Value    int64  `json:"value"`
}

// Of explains a plan that was made on s. A plan that found the pod known has no more than what its
// grant is for: release the pod and plan it again to learn how it would be decided now.
func Of(s *node.State, p *node.Plan) Decision {
	pod := &p.Pod
	if p.Known {
		pod = &p.Grant.Pod
	}
	d := Decision{Asks: asksOf(pod, &p.Trace.Demand), Divisions: divisionsOf(p)}
	left := maxJudged
	for i := range p.Trace.Alignments {
		explained, judged := alignmentOf(s, p, &p.Trace.Alignments[i], left > 0 || i == len(p.Trace.Alignments)-1)
		d.Alignments = append(d.Alignments, explained)
		left -= judged
	}
	if p.Before == nil { // What a resize picks depends on what was there, not on the order of the free CPUs alone.
		d.Picks = picksOf(s, p)
	}
	if p.Grant != nil {
		d.Quota = quotaOf(s, p.Grant)
	}
	return d
}
