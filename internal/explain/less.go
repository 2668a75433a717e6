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
	c := Change{Resource: resource}
	switch {
	case pod.Kind == request.PodLevel && resource == request.CPU:
		c.From = int64(pod.BudgetCPUs)
	case pod.Kind == request.PodLevel && request.IsMemory(resource):
		c.From, _ = pod.BudgetMemory.Get(resource)
	default:
		for i := range pod.Containers {
			of := &pod.Containers[i]
			n := amountOf(of, resource)
			if n > 0 && of.Type == request.Init {
				return Proposal{}, false
			}
			if n > c.From {
				c.Container, c.From = of.Name, n
			}
		}
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
