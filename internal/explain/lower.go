package explain

import (
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// asked returns the amount of a resource that a container requests for itself, and whether it
// requests any.
func asked(c *request.Container, resource string) (int64, bool) {
	if resource == request.CPU {
		return int64(c.CPUs), c.CPUs > 0
	}
	if n, ok := c.Devices.Get(resource); ok {
		return n, true
	}
	return c.Memory.Get(resource)
}

// budgetOf returns the pod-level amount.
func budgetOf(pod request.Pod, resource string) int64 {
	if resource == request.CPU {
		return int64(pod.BudgetCPUs)
	}
	n, _ := pod.BudgetMemory.Get(resource)
	return n
}

// highest returns the largest amount that lower can change.
func highest(pod request.Pod, resource, who string, pool bool) int64 {
	if pool {
		return budgetOf(pod, resource)
	}
	var most int64
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if n, ok := asked(c, resource); ok && (who == "" || c.Name == who) {
			most = max(most, n)
		}
	}
	return most
}

// lower returns the pod with at most limit of a resource. For a pool, the limit applies to the pod
// as a whole, otherwise to each container or to the one named who. The slices of a pool are as
// large as possible while the containers that share keep their current proportion of the pool. If
// that is not possible, these containers keep at least some of it. lower returns false if no
// division of the pool works.
func (x *search) lower(pod request.Pod, a axis, limit int64) (request.Pod, bool) {
	if !a.pool {
		return capped(pod, a.resource, a.who, limit), true
	}
	budget := budgetOf(pod, a.resource)
	if limit < 1 || limit > budget {
		return pod, false
	}
	p := pieces(pod, a.resource)
	unit := sliceUnit(a.resource, a.unit)
	for _, rest := range []int64{p.fair(budget, limit, a.unit, unit), 1} {
		most, ok := p.largestSlice(limit, rest, unit)
		if !ok {
			continue
		}
		pod = Change{Resource: a.resource, To: limit}.apply(pod)
		if most < math.MaxInt64 {
			pod = capped(pod, a.resource, "", most)
		}
		return pod, AgainstAPI(pod).Text == ""
	}
	return pod, false
}

// sliceUnit returns the step in which slices of a pool are lowered. Slices need not be whole cores,
// because R-CPU-70 applies to the pool.
func sliceUnit(resource string, unit int64) int64 {
	if resource == request.CPU {
		return 1
	}
	return unit
}

// fair returns the part of limit for the containers that share. It is in proportion to their part
// of the budget, and at least one step of a slice.
func (p *pool) fair(budget, limit, unit, slice int64) int64 {
	return max(slice, int64(float64(p.divide(budget, math.MaxInt64).Rest)*(float64(limit)/float64(budget)))/unit*unit)
}

// capped limits the amounts that containers request for themselves.
func capped(pod request.Pod, resource, who string, limit int64) request.Pod {
	var changes []Change
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if n, ok := asked(c, resource); ok && n > limit && (who == "" || c.Name == who) {
			changes = append(changes, Change{Container: c.Name, Resource: resource, From: n, To: limit})
		}
	}
	return applied(pod, changes)
}

// pool has the requests of a pod's containers for one resource of its pool and nothing else, so
// that dividing it repeatedly costs little.
type pool struct {
	claims []layout.Claim
	// own is true for containers that request an amount. requested and limit are the amounts that
	// the API compares with the budget; see AgainstAPI.
	own              []bool
	requested, limit []int64
	// compared is true if the API compares the amounts. rest is true if containers without a slice
	// must have a part of the resource. milli is 1000 if amounts in the API are thousandths.
	compared, rest bool
	milli          int64
}

// pieces returns the pool of a pod for one resource.
func pieces(pod request.Pod, resource string) *pool {
	n := len(pod.Containers)
	p := &pool{claims: node.PoolClaims(&pod, resource), own: make([]bool, n), requested: make([]int64, n), limit: make([]int64, n), milli: 1}
	p.compared = pod.Kind == request.PodLevel && pod.QoS == request.Guaranteed
	p.rest = resource == request.CPU || resource == machine.Memory
	for i := range pod.Containers {
		c := &pod.Containers[i]
		_, p.own[i] = asked(c, resource)
		if resource == request.CPU {
			p.milli, p.requested[i], p.limit[i] = 1000, c.CPURequest, c.CPULimit
		} else {
			p.requested[i], _ = c.MemoryRequest.Get(resource)
			p.limit[i], _ = c.MemoryLimit.Get(resource)
		}
	}
	return p
}

// divide divides a budget with slices of at most the size most.
func (p *pool) divide(budget, most int64) layout.Layout {
	claims := slices.Clone(p.claims)
	for i := range claims {
		claims[i].Amount = min(claims[i].Amount, most)
	}
	return layout.Divide(budget, claims)
}

// divides reports whether the managers and the rules of the API allow the budget to be divided with
// slices of at most the size most, so that containers that share have at least rest.
func (p *pool) divides(budget, most, rest int64) bool {
	l := p.divide(budget, most)
	shares := slices.ContainsFunc(l.Pieces, func(p layout.Piece) bool { return p.Part == layout.Rest })
	if l.Overdrawn || l.Empty != layout.NotEmpty || shares && p.rest && l.Rest < rest {
		return false
	}
	if !p.compared {
		return true
	}
	together, alone := p.above(budget*p.milli, most)
	return !together && alone < 0
}

// above makes the comparisons of the API with a budget, which is in units of the API. together
// reports whether the containers together request more than the budget, with slices of at most the
// size most. alone is the first app container whose limit exceeds the budget, or -1.
func (p *pool) above(budget, most int64) (together bool, alone int) {
	claims := make([]layout.Claim, len(p.claims))
	alone = -1
	for i, c := range p.claims {
		requested, limit := p.requested[i], p.limit[i]
		if p.own[i] && c.Amount > most {
			requested, limit = min(requested, most*p.milli), min(limit, most*p.milli)
		}
		if alone < 0 && c.Type == request.App && limit > budget {
			alone = i
		}
		// Prevent overflow of the sums. No machine has a budget for this much.
		claims[i] = layout.Claim{Type: c.Type, Exclusive: true, Amount: min(requested, math.MaxInt64/int64(len(claims)+1))}
	}
	return layout.Budget(claims) > budget, alone
}

// largestSlice returns the largest size of slices, in steps of unit, with which the budget can be
// divided. It returns math.MaxInt64 if slices can remain unchanged.
func (p *pool) largestSlice(budget, rest, unit int64) (int64, bool) {
	if p.divides(budget, math.MaxInt64, rest) {
		return math.MaxInt64, true
	}
	low, high := int64(1), budget/unit
	for low < high {
		if middle := low + (high-low+1)/2; p.divides(budget, middle*unit, rest) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low * unit, p.divides(budget, low*unit, rest)
}

// apply sets one amount, and the copies of it that the request has in thousandths.
func (c Change) apply(pod request.Pod) request.Pod {
	if c.Container == "" {
		if request.IsCache(c.Resource) {
			pod.PoolCache = c.setCache(pod.PoolCache)
			return pod
		}
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
	return applied(pod, []Change{c})
}

// applied applies changes. Most of them are of containers in pod order, so finding these containers
// takes a single pass.
func applied(pod request.Pod, changes []Change) request.Pod {
	cloned, at := false, 0
	for _, c := range changes {
		if c.Container == "" {
			pod = c.apply(pod)
			continue
		}
		if !cloned {
			pod.Containers, cloned = slices.Clone(pod.Containers), true
		}
		for at < len(pod.Containers) && pod.Containers[at].Name != c.Container {
			at++
		}
		if at == len(pod.Containers) {
			if _, at = pod.Container(c.Container); at < 0 {
				at = 0
				continue
			}
		}
		c.set(&pod.Containers[at])
	}
	return pod
}

// set applies the change to a container.
func (c Change) set(at *request.Container) {
	switch _, device := at.Devices.Get(c.Resource); {
	case request.IsCache(c.Resource):
		at.Cache = c.setCache(at.Cache)
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
}

// restated returns the stated amounts with the amount of the change, if the resource is stated.
func restated(stated request.Amounts, c Change) request.Amounts {
	if _, is := stated.Get(c.Resource); !is {
		return stated
	}
	return stated.With(c.Resource, c.To)
}

// sameAmounts reports whether a and b, which differ at most in amounts, are equal.
func sameAmounts(a, b request.Pod) bool { return len(difference(a, b)) == 0 }

// difference returns the changes that turn a into b. Both must have the same containers and
// resources.
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
