package explain

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// asked is what a container asks of a resource for itself, and whether it does.
func asked(c request.Container, resource string) (int64, bool) {
	if resource == request.CPU {
		return int64(c.CPUs), c.CPUs > 0
	}
	if n, ok := c.Devices.Get(resource); ok {
		return n, true
	}
	return c.Memory.Get(resource)
}

// budgetOf is the pod-level amount.
func budgetOf(pod request.Pod, resource string) int64 {
	if resource == request.CPU {
		return int64(pod.BudgetCPUs)
	}
	n, _ := pod.BudgetMemory.Get(resource)
	return n
}

// highest is the largest amount that lower can change.
func highest(pod request.Pod, resource, who string, pool bool) int64 {
	if pool {
		return budgetOf(pod, resource)
	}
	var most int64
	for _, c := range pod.Containers {
		if n, ok := asked(c, resource); ok && (who == "" || c.Name == who) {
			most = max(most, n)
		}
	}
	return most
}

// lower returns the pod with no more than limit of a resource: of a pool, for the pod as a whole; else
// for each container, or for the one called who. The slices of a pool are as large, in units, as
// leaves the containers that share as much of it as they have now, in proportion. False when no
// division of the pool would do.
func lower(pod request.Pod, resource, who string, limit, unit int64, pool bool) (request.Pod, bool) {
	if !pool {
		return capped(pod, resource, who, limit), true
	}
	budget := budgetOf(pod, resource)
	if limit < 1 || limit > budget {
		return pod, false
	}
	rest := max(unit, int64(float64(divide(pod, resource, budget).Rest)*(float64(limit)/float64(budget)))/unit*unit)
	pod = Change{Resource: resource, To: limit}.apply(pod)
	if divides(pod, resource, limit, rest) {
		return pod, true
	}
	low, high := int64(0), limit/unit
	for low < high {
		middle := low + (high-low+1)/2
		if divides(capped(pod, resource, "", middle*unit), resource, limit, rest) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	pod = capped(pod, resource, "", max(low, 1)*unit)
	return pod, divides(pod, resource, limit, rest)
}

// capped limits what containers ask for themselves.
func capped(pod request.Pod, resource, who string, limit int64) request.Pod {
	for _, c := range pod.Containers {
		if n, ok := asked(c, resource); ok && n > limit && (who == "" || c.Name == who) {
			pod = Change{Container: c.Name, Resource: resource, To: limit}.apply(pod)
		}
	}
	return pod
}

// divide is the arithmetic of a pool (layoutPool of package node).
func divide(pod request.Pod, resource string, budget int64) layout.Layout {
	list := make([]layout.Claim, len(pod.Containers))
	for i, c := range pod.Containers {
		n, ok := asked(c, resource)
		if resource != request.CPU {
			ok = len(c.Memory) > 0
		}
		list[i] = layout.Claim{Lane: c.Lane, Exclusive: ok, Amount: n}
		if isMemory(resource) && resource != machine.Memory {
			list[i].Indifferent = !slices.Contains(c.HugePages, resource)
		}
	}
	return layout.Divide(budget, list)
}

// divides tells whether the budget can be divided, by the managers and by the rules of the API, so that
// containers that share have at least rest.
func divides(pod request.Pod, resource string, budget, rest int64) bool {
	l := divide(pod, resource, budget)
	shares := slices.ContainsFunc(l.Pieces, func(p layout.Piece) bool { return p.Part == layout.Rest })
	if shares && l.Rest < rest && (resource == request.CPU || resource == machine.Memory) {
		return false
	}
	return !l.Overdrawn && l.Empty == layout.NotEmpty && AgainstAPI(pod) == ""
}

// apply sets one amount. What the request says a second time, in thousandths, follows.
func (c Change) apply(pod request.Pod) request.Pod {
	if c.Container == "" {
		if c.Resource == request.CPU {
			pod.BudgetCPUs, pod.BudgetCPUMilli = int(c.To), c.To*1000
			if pod.CPULimit > 0 {
				pod.CPULimit = c.To * 1000
			}
			return pod
		}
		pod.BudgetMemory = pod.BudgetMemory.With(c.Resource, c.To)
		return pod
	}
	pod.Containers = slices.Clone(pod.Containers)
	_, i := pod.Container(c.Container)
	if i < 0 {
		return pod
	}
	at := &pod.Containers[i]
	switch _, device := at.Devices.Get(c.Resource); {
	case c.Resource == request.CPU:
		at.CPUs, at.CPURequest = int(c.To), c.To*1000
		if at.CPULimit > 0 {
			at.CPULimit = c.To * 1000
		}
	case device:
		at.Devices = at.Devices.With(c.Resource, c.To)
	default:
		at.Memory = at.Memory.With(c.Resource, c.To)
		at.MemoryRequest, at.MemoryLimit = restated(at.MemoryRequest, c), restated(at.MemoryLimit, c)
	}
	return pod
}

// restated has the amount of a change where one was stated.
func restated(stated request.Amounts, c Change) request.Amounts {
	if _, is := stated.Get(c.Resource); !is {
		return stated
	}
	return stated.With(c.Resource, c.To)
}

// adopt returns pod with the amounts of one resource as they are in from.
func adopt(pod, from request.Pod, resource string) request.Pod {
	for _, c := range difference(pod, from) {
		if c.Resource == resource {
			pod = c.apply(pod)
		}
	}
	return pod
}

// difference is what makes b of a; both have the same containers and resources.
func difference(a, b request.Pod) []Change {
	var out []Change
	add := func(container, resource string, from, to int64) {
		if from != to {
			out = append(out, Change{container, resource, from, to})
		}
	}
	add("", request.CPU, int64(a.BudgetCPUs), int64(b.BudgetCPUs))
	for _, m := range a.BudgetMemory {
		to, _ := b.BudgetMemory.Get(m.Resource)
		add("", m.Resource, m.Value, to)
	}
	for i, c := range a.Containers {
		d := b.Containers[i]
		add(c.Name, request.CPU, int64(c.CPUs), int64(d.CPUs))
		for _, list := range [][2]request.Amounts{{c.Memory, d.Memory}, {c.Devices, d.Devices}} {
			for _, m := range list[0] {
				to, _ := list[1].Get(m.Resource)
				add(c.Name, m.Resource, m.Value, to)
			}
		}
	}
	return out
}
