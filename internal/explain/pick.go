package explain

import (
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Pick describes what was taken for one container or, if Container is empty, for the pod's pool.
type Pick struct {
	Container string `json:"container,omitempty"`
	// CPUs is in list format. Shape describes the units that the CPUs form. WhyCPUs describes why
	// these CPUs were chosen.
	CPUs      string `json:"cpus,omitempty"`
	NUMANodes []int  `json:"numaNodes,omitempty"`
	Shape     string `json:"shape,omitempty"`
	WhyCPUs   string `json:"whyCPUs,omitempty"`
	RuleCPUs  string `json:"ruleCPUs,omitempty"`

	Memory          []Amount `json:"memory,omitempty"`
	MemoryNUMANodes []int    `json:"memoryNUMANodes,omitempty"`
	WhyMemory       string   `json:"whyMemory,omitempty"`
	RuleMemory      string   `json:"ruleMemory,omitempty"`

	// Devices has the ids of devices by resource. Devices left by init containers come first, then
	// those that are near.
	Devices map[string][]string `json:"devices,omitempty"`

	// Cache describes the class of the caches that was taken. WhyCache describes why it has these
	// ways.
	Cache     string `json:"cache,omitempty"`
	WhyCache  string `json:"whyCache,omitempty"`
	RuleCache string `json:"ruleCache,omitempty"`
}

func picksOf(s *node.State, p *node.Plan) []Pick {
	if p.Grant == nil {
		return containerPicks(s, &p.Trace, &node.Grant{Pod: p.Pod, Containers: p.Trace.Taken})
	}
	var picks []Pick
	if g := p.Grant; g.HasPool() {
		pool := Pick{}
		pool.cpus(s, g.Pool, whyCPUs(s, &p.Trace, g.Containers[0], g.Pool))
		for _, b := range g.PoolMemory {
			pool.Memory = append(pool.Memory, Amount{b.Type, b.Size})
			pool.memoryOn(b.Nodes, whyMemory(g.Containers[0], b.Nodes))
		}
		pool.class(g.PoolCache)
		picks = append(picks, pool)
	}
	return append(picks, containerPicks(s, &p.Trace, p.Grant)...)
}

func containerPicks(s *node.State, t *node.Trace, g *node.Grant) []Pick {
	var picks []Pick
	lent := lenders{}
	for i, c := range g.Containers {
		pick := Pick{Container: g.Pod.Containers[i].Name}
		why := whyCPUs(s, t, c, c.CPUs)
		switch {
		case !g.Pool.IsEmpty() && g.Pod.Containers[i].Exclusive():
			why = node.Why{Text: "cut from the pod's pool", Rule: "R-CPU-92, R-CPU-93"}
		case !g.Pool.IsEmpty() && g.Pod.Containers[i].Type == request.Init:
			why = node.Why{Text: "the pool but the slices of sidecars that started before it", Rule: "R-CPU-92"}
		case !g.Pool.IsEmpty():
			why = node.Why{Text: "shares what the slices leave of the pod's pool", Rule: "R-CPU-94"}
		default:
			if from := lent.to(g, i); from != "" {
				why = why.And(node.Why{Text: "some are reused from init container " + from, Rule: "R-CPU-80"})
			}
		}
		pick.cpus(s, c.CPUs, why)
		for _, b := range c.Memory {
			if b.Size > 0 { // A later container may have taken over the memory of a standard init container.
				pick.Memory = append(pick.Memory, Amount{b.Type, b.Size})
			}
		}
		switch {
		case c.MemoryNodes.IsEmpty():
		case len(g.PoolMemory) > 0:
			pick.memoryOn(c.MemoryNodes, node.Why{Text: "where the pod's pool is", Rule: "R-MEM-53"})
		default:
			pick.memoryOn(c.MemoryNodes, whyMemory(c, c.MemoryNodes))
		}
		for _, h := range c.Devices {
			if pick.Devices == nil {
				pick.Devices = map[string][]string{}
			}
			pick.Devices[h.Resource] = h.IDs
		}
		pick.class(c.Cache)
		if pick.CPUs != "" || pick.MemoryNUMANodes != nil || pick.Devices != nil {
			picks = append(picks, pick)
		}
	}
	return picks
}

func (p *Pick) cpus(s *node.State, set cpuset.Set, why node.Why) {
	if set.IsEmpty() {
		return
	}
	p.CPUs, p.Shape, p.WhyCPUs, p.RuleCPUs = set.String(), shape(s.Machine(), set), why.Text, why.Rule
	p.NUMANodes = s.Machine().NodesOf(set).Nodes()
}

func (p *Pick) class(c cache.Class) {
	if len(c) == 0 {
		return
	}
	p.Cache, p.WhyCache, p.RuleCache = c.String(), "the smallest run of free ways with room, then the lowest; the run of the default class last", "R-CACHE-15"
}

func (p *Pick) memoryOn(nodes mask.Mask, why node.Why) {
	p.MemoryNUMANodes, p.WhyMemory, p.RuleMemory = nodes.Nodes(), why.Text, why.Rule
}

// lenders maps a CPU to the first standard init container that had it.
type lenders map[int]int

// to returns the name of the first earlier standard init container that had CPUs of container i. It
// must be called for all containers in their order.
func (l lenders) to(g *node.Grant, i int) string {
	first := i
	for id := range g.Containers[i].CPUs.All() {
		k, had := l[id]
		if had {
			first = min(first, k)
		} else if g.Pod.Containers[i].Type == request.Init {
			l[id] = i
		}
	}
	if first == i {
		return ""
	}
	return g.Pod.Containers[first].Name
}

// shape describes the whole units of a set, such as "5 whole cores in 1 uncore cache".
func shape(m *machine.Machine, set cpuset.Set) string {
	whole, threads := 0, 0
	for _, core := range m.Cores() {
		switch n := set.IntersectionLen(core.CPUs); n {
		case 0:
		case core.Size:
			whole++
		default:
			threads += n
		}
	}
	var parts []string
	if whole > 0 {
		parts = append(parts, countText(whole, "whole core"))
	}
	if threads > 0 {
		parts = append(parts, countText(threads, "single thread"))
	}
	text := strings.Join(parts, " and ")
	if len(m.Uncores()) > len(m.CPUNodes()) {
		uncores := 0
		for _, u := range m.Uncores() {
			if u.CPUs.Intersects(set) {
				uncores++
			}
		}
		text += " in " + countText(uncores, "uncore cache")
	}
	return text
}

// whyCPUs describes how the CPUs were taken from the free CPUs of the node.
func whyCPUs(s *node.State, t *node.Trace, c node.ContainerGrant, set cpuset.Set) node.Why {
	why := [...]node.Why{
		cpu.Packed:          {Text: "packed: whole NUMA nodes, then whole cores, then threads; the fullest unit first, then the lowest", Rule: "R-CPU-41…45"},
		cpu.PackedInUncores: {Text: "packed within uncore caches, the fullest first", Rule: "R-CPU-60…64"},
		cpu.Spread:          {Text: "spread: the lowest free CPUs of the fullest socket, one thread of each core", Rule: "R-CPU-46"},
		cpu.Distributed:     {Text: "distributed evenly over NUMA nodes", Rule: "R-CPU-50…58"},
	}[t.Method]
	if !c.Affinity.HasMask || s.Policy().Topology == node.TopologyNone {
		return why
	}
	outside := s.Machine().NodesOf(set) &^ c.Affinity.Mask
	switch {
	case outside.IsEmpty():
		return why
	case t.BySocket:
		return why.And(node.Why{Text: outside.Text() + " too, as align-by-socket takes the whole socket", Rule: "R-CPU-82"})
	}
	return why.And(node.Why{Text: outside.Text() + " too, as the aligned ones have too few", Rule: "R-CPU-82"})
}

func whyMemory(c node.ContainerGrant, nodes mask.Mask) node.Why {
	switch {
	case !c.Affinity.HasMask:
		return node.Why{Text: "nothing is aligned: the fewest NUMA nodes with room for it, then the lowest", Rule: "R-MEM-32"}
	case nodes == c.Affinity.Mask:
		return node.Why{Text: "where it was aligned"}
	}
	return node.Why{Text: c.Affinity.Mask.Text() + " have too little: the narrowest set around them with room for it", Rule: "R-MEM-33"}
}

// Quota describes the limit for the CPU time of a container or, if Container is empty, of the pod.
type Quota struct {
	Container string `json:"container,omitempty"`
	// Milli is the CFS quota in thousandths of a CPU. Zero means no CFS quota.
	Milli int64  `json:"milliCPUs,omitempty"`
	Why   string `json:"why"`
	Rule  string `json:"rule,omitempty"`
}

func quotaOf(s *node.State, g *node.Grant) []Quota {
	policy := s.Policy()
	pod := Quota{Milli: g.Pod.CPULimit, Why: "the pod-level limit; not every container has CPUs of its own", Rule: "R-ST-81"}
	switch none := quota.PodHasNone(g, policy); {
	case none && !policy.Quota.Isolated:
		pod = Quota{Why: "no CFS quota: exclusive CPUs need none", Rule: "R-ST-81"}
	case none && !g.Pool.IsEmpty():
		pod = Quota{Why: "no CFS quota: the cpuset of its pool is the limit"}
	case none:
		pod = Quota{Why: "no CFS quota: it would throttle exclusive containers; the others have limits of their own"}
	case pod.Milli == 0:
		pod.Why, pod.Rule = "the containers' limits together", ""
	case !policy.LiftQuota:
		pod.Why, pod.Rule = "feature gate DisableCPUQuotaWithExclusiveCPUs is off", ""
	}
	whys := [...]node.Why{
		quota.NoLimit:    {Text: "it has no limit"},
		quota.OwnLimit:   {Text: "its own limit"},
		quota.PodLimit:   {Text: "the pod-level limit", Rule: "R-ST-82"},
		quota.PodShare:   {Text: "its share of what exclusive containers leave of the pod's limit"},
		quota.NoCFSQuota: {Text: "no CFS quota: its CPUs are its own", Rule: "R-ST-80"},
	}
	out := []Quota{pod}
	for i, limit := range quota.Limits(s, g) {
		why := whys[limit.Source]
		if limit.Source == quota.OwnLimit && g.Isolation(i) == node.ContainerIsolation {
			why.Text += "; feature gate DisableCPUQuotaWithExclusiveCPUs is off"
		}
		out = append(out, Quota{g.Pod.Containers[i].Name, limit.Milli, why.Text, why.Rule})
	}
	return out
}
