package explain

import (
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Less proposes to lower the request for a resource if a node has too little of it left for the sum
// of all requests, by excess. It lowers the pod-level amount, or the container that requests most.
// CPUs are in thousandths. If s rejects the pod even then, Less looks for smaller amounts, as
// Search does. It returns false if there is no proposal; the context may then have ended. Init
// containers count differently from other containers, so Less lowers no container of a pod in which
// an init container requests the resource.
func Less(ctx context.Context, s *node.State, pod request.Pod, resource string, excess int64) (Proposal, bool) {
	x := &search{state: s, pod: pod}
	if resource == request.CPU {
		excess = (excess + 999) / 1000
	}
	c, ok := largestRequest(&pod, "", resource)
	if !ok {
		return Proposal{}, false
	}
	unit := x.unit(resource)
	if c.To = (c.From - excess) / unit * unit; c.To < unit {
		return Proposal{}, false
	}
	lowered := c.apply(pod)
	if s.Plan(lowered).Rejection != nil {
		found, err := Search(ctx, s, lowered)
		at := slices.IndexFunc(found.Proposals, func(p Proposal) bool {
			return p.Kind == Amounts && !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.To > c.From })
		})
		if err != nil || at < 0 {
			return Proposal{}, false
		}
		lowered = applied(lowered, found.Proposals[at].Changes)
	}
	if AgainstAPI(lowered).Text != "" || s.Plan(lowered).Rejection != nil {
		return Proposal{}, false
	}
	return x.amountProposal(lowered), true
}

// largestRequest returns the amount of a resource to lower: the pod-level one, that of the
// container named who, or that of the container that requests most. It returns false if an init
// container requests the resource, and if nothing does.
func largestRequest(pod *request.Pod, who, resource string) (Change, bool) {
	c := Change{Resource: resource}
	switch {
	case who == "" && pod.Kind == request.PodLevel && resource == request.CPU:
		c.From = int64(pod.BudgetCPUs)
	case who == "" && pod.Kind == request.PodLevel && request.IsMemory(resource):
		c.From, _ = pod.BudgetMemory.Get(resource)
	default:
		for i := range pod.Containers {
			of := &pod.Containers[i]
			n := amountOf(of, resource)
			if n > 0 && of.Type == request.Init {
				return c, false
			}
			if n > c.From && (who == "" || of.Name == who) {
				c.Container, c.From = of.Name, n
			}
		}
	}
	return c, c.From > 0
}

// Lower returns the pod with at least as much less of a resource as a, and the change. It lowers
// the amounts that Less lowers or, if the question of m was about a container, those of the
// container, in whole cores, MiB or huge pages. It does not plan the pod. It returns false if
// nothing would be left of the amount, or if the API server would not take the pod.
func (m *Missing) Lower(s *node.State, pod request.Pod, a Amount) (request.Pod, Change, bool) {
	x := &search{state: s, pod: pod}
	c, ok := largestRequest(&pod, m.Container, a.Resource)
	unit := x.unit(a.Resource)
	if c.To = (c.From - a.Value) / unit * unit; !ok || c.To < unit {
		return pod, c, false
	}
	lowered := c.apply(pod)
	return lowered, c, AgainstAPI(lowered).Text == ""
}

// amountOf returns what a container requests for itself.
func amountOf(c *request.Container, resource string) int64 {
	if resource == request.CPU {
		return int64(c.CPUs)
	}
	amounts := c.Devices
	if request.IsMemory(resource) {
		amounts = c.Memory
	}
	n, _ := amounts.Get(resource)
	return n
}
