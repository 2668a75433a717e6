package explain

import "github.com/paddock-project/paddock/internal/core/node"

// Decision explains one admission, in the order of its steps. What the pod got at the end, or why
// it got nothing, is in the plan's Grant and Rejection.
type Decision struct {
	Asks Asks `json:"asks"`
	// Divisions show how a pod-level pool is divided, one for each resource.
	Divisions []Division `json:"divisions,omitempty"`
	// Alignments are the questions to the Topology Manager, in the order in which they were asked.
	Alignments []Alignment `json:"alignments,omitempty"`
	// Picks describe what was taken, and why there. For a rejected pod, they describe what its
	// containers had before one of them could not be served. The pod gets none of it.
	Picks []Pick  `json:"picks,omitempty"`
	Quota []Quota `json:"quota,omitempty"`
}

// Amount is a quantity of one resource: CPUs, bytes or devices.
type Amount struct {
	Resource string `json:"resource"`
	Value    int64  `json:"value"`
}

// Of explains a plan that was made on s. If the plan found that the pod is already known, the
// result describes only its existing grant. To learn how the pod would be decided now, release it
// and plan it again.
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
	if p.Before == nil { // A resize also depends on the existing CPUs, not only on the order of the free ones.
		d.Picks = picksOf(s, p)
	}
	if p.Grant != nil {
		d.Quota = quotaOf(s, p.Grant)
	}
	return d
}
