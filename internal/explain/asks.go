package explain

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Asks is what the pod asks of the managers, and by which rules.
type Asks struct {
	QoS  string `json:"qos"`
	Kind string `json:"kind"` // plain, pod-level or unmanaged
	// Way says how the pod goes through the admission.
	Way        string `json:"way"`
	Containers []Ask  `json:"containers"`
	// Together is what is aligned as one: a pod-level budget, or what the containers need at the
	// worst moment. Empty where each container is aligned by itself. Why names the rule.
	Together    []Amount `json:"together,omitempty"`
	WhyTogether string   `json:"whyTogether,omitempty"`
}

// Ask is what one container asks for.
type Ask struct {
	Container string `json:"container"`
	Kind      string `json:"kind"` // init, sidecar or app
	// CPUs are exclusive ones, 0: it shares; Memory is pinned, empty: it is not. The reasons say
	// by which rule.
	CPUs      int      `json:"cpus"`
	WhyCPUs   string   `json:"whyCPUs"`
	Memory    []Amount `json:"memory,omitempty"`
	WhyMemory string   `json:"whyMemory"`
	// Devices are those of an inventory.
	Devices []Amount `json:"devices,omitempty"`
}

func asksOf(s *node.State, pod request.Pod) Asks {
	policy := s.Policy()
	a := Asks{QoS: pod.QoS.String(), Kind: pod.Kind.String(), Way: way(policy, pod)}
	if pod.Estimated {
		a.Way = "estimated from cgroup numbers; " + a.Way
	}
	for _, c := range pod.Containers {
		ask := Ask{Container: c.Name, Kind: c.Lane.String()}
		ask.CPUs, ask.WhyCPUs = cpusOf(policy, pod, c)
		ask.Memory, ask.WhyMemory = memoryOf(policy, pod, c)
		for _, d := range c.Devices {
			if s.Devices().Inventory().Has(d.Resource) {
				ask.Devices = append(ask.Devices, Amount(d))
			}
		}
		a.Containers = append(a.Containers, ask)
	}
	if policy.Topology != node.TopologyNone && policy.Scope == node.PodScope {
		a.Together, a.WhyTogether = together(s, pod)
	}
	return a
}

// way is the row of docs/rules/demand.md, section 10, in words.
func way(policy node.Policy, pod request.Pod) string {
	switch {
	case pod.Kind == request.Unmanaged:
		return "feature gate PodLevelResourceManagers is off: the managers leave a pod with pod-level resources alone (R-DEM-26)"
	case policy.Topology == node.TopologyNone:
		return "topology policy none: nothing is aligned, each container is served by itself (R-HINT-60)"
	case policy.Scope == node.ContainerScope && pod.Kind == request.PodLevel:
		return "scope container: each container is aligned by itself, and the pod gets no pool (R-DEM-100)"
	case policy.Scope == node.ContainerScope:
		return "scope container: each container is aligned by itself (R-HINT-64)"
	case pod.Kind == request.PodLevel:
		return "scope pod: one pool for the pod, aligned as one and then divided (R-DEM-40, R-HINT-65)"
	}
	return "scope pod: aligned as one, each container is served by itself (R-HINT-65)"
}

func cpusOf(policy node.Policy, pod request.Pod, c request.Container) (int, string) {
	switch {
	case !policy.StaticCPU:
		return 0, "the CPU policy is none (R-DEM-28)"
	case c.Sharing != request.NotShared:
		return 0, c.Sharing.String()
	case pooled(policy, pod) && pod.BudgetCPUs == 0:
		return 0, "the pod-level cpu request is missing or not a whole number (R-DEM-40)"
	case pod.Kind == request.PodLevel:
		return c.CPUs, "its own cpu and memory requests equal its limits, and its cpu is a whole number (R-DEM-22, R-DEM-23)"
	}
	return c.CPUs, "the pod is Guaranteed, and its cpu is a whole number (R-DEM-23)"
}

func memoryOf(policy node.Policy, pod request.Pod, c request.Container) ([]Amount, string) {
	switch {
	case !policy.StaticMemory:
		return nil, "the memory policy is None (R-DEM-34)"
	case pod.QoS != request.Guaranteed:
		return nil, "the pod is not Guaranteed (R-DEM-30)"
	case pod.Kind == request.Unmanaged:
		return nil, "feature gate PodLevelResourceManagers is off (R-DEM-26)"
	case pod.Estimated:
		return nil, request.Estimated.String()
	case pod.Kind == request.PodLevel && !c.Equivalent:
		return nil, "its own cpu and memory requests and limits are not all set and equal (R-DEM-31)"
	}
	return amountsOf(c.Memory), "the pod is Guaranteed (R-DEM-32)"
}

// together is what the Topology Manager is asked about for the pod as one.
func together(s *node.State, pod request.Pod) ([]Amount, string) {
	policy := s.Policy()
	var sum request.Amounts
	if policy.StaticCPU && pod.Kind != request.Unmanaged {
		n := int64(pod.BudgetCPUs)
		if pod.Kind != request.PodLevel {
			n = layout.Budget(claims(pod, func(c request.Container) int64 { return int64(c.CPUs) }))
		}
		if n > 0 {
			sum = sum.With(request.CPU, n)
		}
	}
	if policy.StaticMemory && pod.Kind != request.Unmanaged && pod.QoS == request.Guaranteed {
		for _, a := range memoryTogether(pod) {
			sum = sum.With(a.Resource, a.Value)
		}
	}
	for _, resource := range s.Devices().Inventory().Resources() {
		n := layout.Budget(claims(pod, func(c request.Container) int64 { v, _ := c.Devices.Get(resource); return v }))
		if n > 0 {
			sum = sum.With(resource, n)
		}
	}
	if pod.Kind == request.PodLevel {
		return amountsOf(sum), "the pod-level requests (R-DEM-40, R-DEM-51)"
	}
	return amountsOf(sum), "the apps and sidecars together, or an init container with the sidecars before it (R-DEM-41, R-DEM-50)"
}

func memoryTogether(pod request.Pod) request.Amounts {
	if pod.Kind == request.PodLevel {
		return pod.BudgetMemory
	}
	var sum request.Amounts
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Lane != request.App {
			continue
		}
		for _, a := range c.Memory {
			if _, done := sum.Get(a.Resource); done {
				continue
			}
			sum = sum.With(a.Resource, layout.Budget(claims(pod, func(c request.Container) int64 {
				v, _ := c.Memory.Get(a.Resource)
				return v
			})))
		}
	}
	return sum
}

// claims are what each container takes of a budget that nobody states.
func claims(pod request.Pod, amount func(request.Container) int64) []layout.Claim {
	out := make([]layout.Claim, len(pod.Containers))
	for i, c := range pod.Containers {
		out[i] = layout.Claim{Lane: c.Lane, Exclusive: true, Amount: amount(c)}
	}
	return out
}

// Division is how one resource of a pool is divided.
type Division struct {
	Resource string  `json:"resource"`
	Budget   int64   `json:"budget"`
	Pieces   []Piece `json:"pieces"`
	// Rest is what the containers share that have no slice; Idle tells that nobody does.
	Rest int64 `json:"rest"`
	Idle bool  `json:"idle,omitempty"`
	// Wrong says why the division cannot be; empty: it can.
	Wrong string `json:"wrong,omitempty"`
}

// Piece is one container's part: a slice for itself, the whole pool, or the rest.
type Piece struct {
	Container string `json:"container"`
	Part      string `json:"part"`
	Amount    int64  `json:"amount"`
}

func divisionsOf(p *node.Plan) []Division {
	var out []Division
	if l := p.Trace.CPULayout; l.Budget > 0 {
		out = append(out, divisionOf(p.Pod, request.CPU, l))
	}
	for k, l := range p.Trace.MemoryLayouts {
		out = append(out, divisionOf(p.Pod, p.Pod.BudgetMemory[k].Resource, l))
	}
	return out
}

func divisionOf(pod request.Pod, resource string, l layout.Layout) Division {
	d := Division{Resource: resource, Budget: l.Budget, Rest: l.Rest, Idle: l.Rest > 0}
	for i, p := range l.Pieces {
		part := "slice"
		switch p.Part {
		case layout.WholePool:
			part = "whole pool"
		case layout.Rest:
			part, d.Idle = "rest", false
		case layout.Slice:
		}
		d.Pieces = append(d.Pieces, Piece{pod.Containers[i].Name, part, p.Amount})
	}
	switch {
	case l.Overdrawn:
		d.Wrong, d.Idle = "the slices are more than the budget (R-DEM-94)", false
	case l.Empty == layout.EmptyForInit:
		d.Wrong = fmt.Sprintf("sidecars take all before an init container that shares (%s)", emptyRule(resource))
	case l.Empty == layout.EmptyForShared:
		d.Wrong = fmt.Sprintf("the slices take all, and somebody shares (%s)", emptyRule(resource))
	case l.Empty == layout.NotEmpty:
	}
	return d
}

func emptyRule(resource string) string {
	if resource == request.CPU {
		return "R-DEM-61"
	}
	return "R-DEM-62"
}
