package explain

import (
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Asks describes what the pod requests from the managers, and by which rules.
type Asks struct {
	QoS  string `json:"qos"`
	Kind string `json:"kind"` // plain, pod-level or unmanaged
	// Way describes how the admission handles the pod.
	Way        string `json:"way"`
	Rule       string `json:"rule,omitempty"`
	Containers []Ask  `json:"containers"`
	// Together is what is aligned as one: a pod-level budget, or the peak needs of the containers.
	// It is empty if each container is aligned on its own.
	Together     []Amount `json:"together,omitempty"`
	WhyTogether  string   `json:"whyTogether,omitempty"`
	RuleTogether string   `json:"ruleTogether,omitempty"`
	// PoolCache is what the containers that share the pod's pool ask of their caches.
	PoolCache []Amount `json:"poolCache,omitempty"`
}

// Ask describes what one container requests.
type Ask struct {
	Container string `json:"container"`
	Kind      string `json:"kind"` // init, sidecar or app
	// CPUs is the number of exclusive CPUs. If 0, the container shares CPUs. Memory is pinned. If
	// empty, no memory is pinned.
	CPUs       int      `json:"cpus"`
	WhyCPUs    string   `json:"whyCPUs"`
	RuleCPUs   string   `json:"ruleCPUs,omitempty"`
	Memory     []Amount `json:"memory,omitempty"`
	WhyMemory  string   `json:"whyMemory"`
	RuleMemory string   `json:"ruleMemory,omitempty"`
	// Devices are the devices from an inventory.
	Devices []Amount `json:"devices,omitempty"`
	// Cache is the part of its caches: ways of L3, and percent of the memory bandwidth.
	Cache []Amount `json:"cache,omitempty"`
}

func asksOf(pod *request.Pod, demand *node.Demand) Asks {
	together := append(listed(demand.Together.Memory), listed(demand.Together.Devices)...)
	if n := demand.Together.CPUs; n > 0 {
		together = append(together, Amount{request.CPU, int64(n)})
	}
	together = append(together, cacheAmounts(demand.Together.Cache)...)
	slices.SortFunc(together, func(a, b Amount) int { return strings.Compare(a.Resource, b.Resource) })
	way, why := wayOf(pod, demand), whyTogether(demand)
	a := Asks{
		QoS: pod.QoS.String(), Kind: pod.Kind.String(), Way: way.Text, Rule: way.Rule,
		Together: together, WhyTogether: why.Text, RuleTogether: why.Rule,
	}
	a.PoolCache = cacheAmounts(demand.PoolCache)
	if pod.Estimated {
		a.Way = "estimated from cgroup numbers; " + a.Way
	}
	for i := range demand.Containers {
		c, asks := &pod.Containers[i], &demand.Containers[i]
		whyCPUs, whyMemory := asks.WhyCPUs(), asks.WhyMemory()
		a.Containers = append(a.Containers, Ask{
			Container: c.Name, Kind: c.Type.String(), CPUs: asks.CPUs, WhyCPUs: whyCPUs.Text, RuleCPUs: whyCPUs.Rule,
			Memory: listed(asks.Memory), WhyMemory: whyMemory.Text, RuleMemory: whyMemory.Rule, Devices: listed(asks.Devices), Cache: cacheAmounts(asks.Cache),
		})
	}
	return a
}

// wayOf describes how the admission handles the pod.
func wayOf(pod *request.Pod, demand *node.Demand) node.Why {
	switch {
	case pod.Kind == request.Unmanaged:
		return node.Why{Text: "feature gate PodLevelResourceManagers is off: the managers leave a pod with pod-level resources alone", Rule: "R-DEM-26"}
	case pod.Kind == request.PodLevel && demand.Path == node.ByContainer:
		return node.Why{Text: "scope container: each container is aligned by itself, and the pod gets no pool", Rule: "R-DEM-100"}
	}
	return [...]node.Why{
		node.Unaligned:   {Text: "topology policy none: nothing is aligned, each container is served by itself", Rule: "R-HINT-60"},
		node.ByContainer: {Text: "scope container: each container is aligned by itself", Rule: "R-HINT-64"},
		node.AsOne:       {Text: "scope pod: aligned as one, each container is served by itself", Rule: "R-HINT-65"},
		node.AsPool:      {Text: "scope pod: one pool for the pod, aligned as one and then divided", Rule: "R-DEM-40, R-HINT-65"},
	}[demand.Path]
}

// whyTogether describes what is aligned as one. It returns the zero value if nothing is.
func whyTogether(demand *node.Demand) node.Why {
	return map[node.Path]node.Why{
		node.AsPool: {Text: "the pod-level requests", Rule: "R-DEM-40, R-DEM-51"},
		node.AsOne:  {Text: "the apps and sidecars together, or an init container with the sidecars before it", Rule: "R-DEM-41, R-DEM-50"},
	}[demand.Path]
}

func listed(amounts request.Amounts) []Amount {
	var out []Amount
	for _, a := range amounts {
		out = append(out, Amount(a))
	}
	return out
}

// Division describes how one resource of a pool is divided.
type Division struct {
	Resource string  `json:"resource"`
	Budget   int64   `json:"budget"`
	Pieces   []Piece `json:"pieces"`
	// Rest is what the containers without a slice share. Idle is true if there is no such
	// container.
	Rest int64 `json:"rest"`
	Idle bool  `json:"idle,omitempty"`
	// Wrong describes why the pool cannot be divided this way. If empty, it can.
	Wrong string `json:"wrong,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

// Piece is the part of one container: a slice of its own, the whole pool, or the rest.
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
		if v.Fault != rejection.NoCause {
			d.Wrong, d.Rule = v.Wrong(), v.Rule()
		}
		out = append(out, d)
	}
	return out
}
