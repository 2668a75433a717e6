package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Asks is what the pod asks of the managers, and by which rules.
type Asks struct {
	QoS  string `json:"qos"`
	Kind string `json:"kind"` // plain, pod-level or unmanaged
	// Way describes how the pod goes through the admission.
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
	// CPUs are exclusive ones, 0: it shares; Memory is pinned, empty: it is not. The reasons
	// describe by which rule.
	CPUs      int      `json:"cpus"`
	WhyCPUs   string   `json:"whyCPUs"`
	Memory    []Amount `json:"memory,omitempty"`
	WhyMemory string   `json:"whyMemory"`
	// Devices are those of an inventory.
	Devices []Amount `json:"devices,omitempty"`
}

func asksOf(pod *request.Pod, demand *node.Demand) Asks {
	together := append(listed(demand.Together.Memory), listed(demand.Together.Devices)...)
	if n := demand.Together.CPUs; n > 0 {
		together = append(together, Amount{request.CPU, int64(n)})
	}
	slices.SortFunc(together, func(a, b Amount) int { return strings.Compare(a.Resource, b.Resource) })
	way := [...]string{
		node.Unaligned:   "topology policy none: nothing is aligned, each container is served by itself (R-HINT-60)",
		node.ByContainer: "scope container: each container is aligned by itself (R-HINT-64)",
		node.AsOne:       "scope pod: aligned as one, each container is served by itself (R-HINT-65)",
		node.AsPool:      "scope pod: one pool for the pod, aligned as one and then divided (R-DEM-40, R-HINT-65)",
	}[demand.Path]
	switch {
	case pod.Kind == request.Unmanaged:
		way = "feature gate PodLevelResourceManagers is off: the managers leave a pod with pod-level resources alone (R-DEM-26)"
	case pod.Kind == request.PodLevel && demand.Path == node.ByContainer:
		way = "scope container: each container is aligned by itself, and the pod gets no pool (R-DEM-100)"
	}
	a := Asks{QoS: pod.QoS.String(), Kind: pod.Kind.String(), Way: way, Together: together}
	if pod.Estimated {
		a.Way = "estimated from cgroup numbers; " + a.Way
	}
	for i := range demand.Containers {
		c, asks := &pod.Containers[i], &demand.Containers[i]
		a.Containers = append(a.Containers, Ask{
			Container: c.Name, Kind: c.Type.String(), CPUs: asks.CPUs, WhyCPUs: asks.WhyCPUs(),
			Memory: listed(asks.Memory), WhyMemory: asks.WhyMemory(), Devices: listed(asks.Devices),
		})
	}
	a.WhyTogether = map[node.Path]string{
		node.AsPool: "the pod-level requests (R-DEM-40, R-DEM-51)",
		node.AsOne:  "the apps and sidecars together, or an init container with the sidecars before it (R-DEM-41, R-DEM-50)",
	}[demand.Path]
	return a
}

func listed(amounts request.Amounts) []Amount {
	var out []Amount
	for _, a := range amounts {
		out = append(out, Amount(a))
	}
	return out
}

// Division is how one resource of a pool is divided.
type Division struct {
	Resource string  `json:"resource"`
	Budget   int64   `json:"budget"`
	Pieces   []Piece `json:"pieces"`
	// Rest is what the containers share that have no slice; Idle is true if no container does.
	Rest int64 `json:"rest"`
	Idle bool  `json:"idle,omitempty"`
	// Wrong is why the pool cannot be divided so; empty: it can.
	Wrong string `json:"wrong,omitempty"`
}

// Piece is one container's part: a slice for itself, the whole pool, or the rest.
type Piece struct {
	Container string `json:"container"`
	Part      string `json:"part"`
	Amount    int64  `json:"amount"`
}

func divisionsOf(p *node.Plan) []Division {
	parts := [...]string{layout.Slice: "slice", layout.WholePool: "whole pool", layout.Rest: "rest"}
	var out []Division
	for i := range p.Trace.Divisions {
		v := &p.Trace.Divisions[i]
		d := Division{Resource: v.Resource, Budget: v.Budget, Rest: v.Rest, Idle: v.Rest > 0 && !v.Overdrawn}
		for k, piece := range v.Pieces {
			d.Idle = d.Idle && piece.Part != layout.Rest
			d.Pieces = append(d.Pieces, Piece{p.Pod.Containers[k].Name, parts[piece.Part], piece.Amount})
		}
		if v.Fault != node.NoCause {
			d.Wrong = fmt.Sprintf("%s (%s)", v.Wrong(), v.Rule())
		}
		out = append(out, d)
	}
	return out
}
