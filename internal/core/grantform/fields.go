package grantform

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/form"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// PolicyFields are the members of a policy.
var PolicyFields = form.Object[node.Policy]{
	form.Named("topologyManagerPolicy", topologyNames, func(p *node.Policy) *node.TopologyPolicy { return &p.Topology }),
	form.Named("topologyManagerScope", scopeNames, func(p *node.Policy) *node.Scope { return &p.Scope }),
	form.Options("topologyManagerPolicyOptions", topologyOptions),
	form.Named("cpuManagerPolicy", cpuPolicyNames, func(p *node.Policy) *bool { return &p.StaticCPU }),
	form.Options("cpuManagerPolicyOptions", cpuOptions),
	form.Named("isolatedCPUs", isolatedNames, func(p *node.Policy) *cpu.Isolated { return &p.CPU.Isolated }),
	form.CPUs("reservedCPUs", func(p *node.Policy) *cpuset.Set { return &p.ReservedCPUs }),
	form.Named("memoryManagerPolicy", memoryPolicyNames, func(p *node.Policy) *bool { return &p.StaticMemory }),
	form.Through(form.Slice("reservedMemory", form.Object[reserved]{
		form.Number("numaNode", func(r *reserved) *int { return &r.node }).Always(),
		form.Amounts("limits", func(r *reserved) *request.Amounts { return &r.limits }),
	}, func(l *[]reserved) *[]reserved { return l }, nil), reservedOf, reserve),
	form.Options("featureGates", featureGates),
	form.Through(form.Optional("moves", form.Object[node.MovePolicy]{
		form.Number("pods", func(m *node.MovePolicy) *int { return &m.Pods }).Always(),
		form.Flag("all", func(m *node.MovePolicy) *bool { return &m.All }),
		form.Number("bytes", func(m *node.MovePolicy) *int64 { return &m.Bytes }),
		form.Flag("anyKernel", func(m *node.MovePolicy) *bool { return &m.AnyKernel }),
	}, func(m **node.MovePolicy) **node.MovePolicy { return m }), movesOf, func(p *node.Policy, m *node.MovePolicy) { p.Moves = *m }),
}

// reserved is Policy.ReservedMemory of one NUMA node.
type reserved struct {
	node   int
	limits request.Amounts
}

func reservedOf(p *node.Policy) (list []reserved) {
	for _, id := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		if limits := p.ReservedMemory[id]; len(limits) > 0 {
			list = append(list, reserved{id, amountsOf(limits)})
		}
	}
	return list
}

func reserve(p *node.Policy, list []reserved) {
	if len(list) > 0 {
		p.ReservedMemory = map[int]map[string]int64{}
	}
	for _, r := range list {
		limits := map[string]int64{}
		for _, a := range r.limits {
			limits[a.Resource] = a.Value
		}
		p.ReservedMemory[r.node] = limits
	}
}

func movesOf(p *node.Policy) *node.MovePolicy {
	if p.Moves.Pods <= 0 {
		return nil
	}
	return &p.Moves
}

// GrantFields are the members of a pod with its grant. Only the containers are on lines of their
// own.
var GrantFields = form.Object[node.Grant]{
	form.Text("uid", func(g *node.Grant) *string { return &g.Pod.UID }),
	form.Text("namespace", func(g *node.Grant) *string { return &g.Pod.Namespace }),
	form.Text("name", func(g *node.Grant) *string { return &g.Pod.Name }),
	form.Number("sequence", func(g *node.Grant) *uint64 { return &g.Sequence }).Always(),
	form.Number("resized", func(g *node.Grant) *uint64 { return &g.Resized }),
	form.Named("qos", qosNames, func(g *node.Grant) *request.QoS { return &g.Pod.QoS }),
	form.Named("kind", kindNames, func(g *node.Grant) *request.Kind { return &g.Pod.Kind }),
	form.Flag("sharesIsolated", func(g *node.Grant) *bool { return &g.Pod.SharesIsolated }),
	form.Nested("poolCacheAsked", askedFields, func(g *node.Grant) *request.Cache { return &g.Pod.PoolCache }),
	form.Text("cacheUnclear", func(g *node.Grant) *string { return &g.Pod.CacheUnclear }),
	form.Flag("estimated", func(g *node.Grant) *bool { return &g.Pod.Estimated }),
	form.Number("budgetCPUs", func(g *node.Grant) *int { return &g.Pod.BudgetCPUs }),
	form.Number("budgetCPUMilli", func(g *node.Grant) *int64 { return &g.Pod.BudgetCPUMilli }),
	form.Amounts("budgetMemory", func(g *node.Grant) *request.Amounts { return &g.Pod.BudgetMemory }),
	form.Number("cpuLimitMilli", func(g *node.Grant) *int64 { return &g.Pod.CPULimit }),
	form.Signed("priority", func(g *node.Grant) *int32 { return &g.Pod.Priority }),
	form.Number("created", func(g *node.Grant) *int64 { return &g.Pod.Created }),
	form.Named("moves", consentNames, func(g *node.Grant) *request.Consent { return &g.Pod.Moves }),
	form.Slice("stock", stockFields, func(g *node.Grant) *[]request.Stock { return &g.Pod.Stock }, func(before, s *request.Stock) bool {
		return before == nil || before.Of < s.Of
	}),
	form.Text("devicesUnknown", func(g *node.Grant) *string { return &g.Pod.DevicesUnknown }),
	form.Slice("resourceClaims", claimFields, func(g *node.Grant) *[]request.Claim { return &g.Pod.ResourceClaims }, func(before, c *request.Claim) bool {
		return before == nil || before.Name < c.Name
	}),
	poolCPUs, poolBaseline, poolMemory, poolCache,
	form.Optional("moving", form.Object[node.Grant]{
		poolCPUs, poolBaseline, poolMemory, poolCache,
		form.Slice("containers", grantFields, func(g *node.Grant) *[]node.ContainerGrant { return &g.Containers }, nil).Always(),
	}, func(g *node.Grant) **node.Grant { return &g.Moving }),
	(&form.List[node.Grant, container]{
		Name: "containers", Indent: "\n ", Members: containerFields,
		Len: func(g *node.Grant) int { return len(g.Containers) },
		At:  func(g *node.Grant, i int) *container { return &container{&g.Pod.Containers[i], &g.Containers[i]} },
		Add: func(g *node.Grant) {
			g.Pod.Containers, g.Containers = append(g.Pod.Containers, request.Container{}), append(g.Containers, node.ContainerGrant{})
		},
	}).Field().Always(),
}

var (
	poolCPUs     = form.CPUs("poolCPUs", func(g *node.Grant) *cpuset.Set { return &g.Pool })
	poolBaseline = form.CPUs("poolBaseline", func(g *node.Grant) *cpuset.Set { return &g.PoolBaseline })
	poolMemory   = form.Slice("poolMemory", blockFields, func(g *node.Grant) *[]memory.Block { return &g.PoolMemory }, nil)
	poolCache    = form.Class("poolCache", func(g *node.Grant) *cache.Class { return &g.PoolCache })
)

var blockFields = form.Object[memory.Block]{
	form.Text("type", func(b *memory.Block) *string { return &b.Type }),
	form.Number("bytes", func(b *memory.Block) *int64 { return &b.Size }),
	form.Nodes("nodes", func(b *memory.Block) *mask.Mask { return &b.Nodes }),
}

// container is what a container asks for and what it has.
type container struct {
	asks *request.Container
	has  *node.ContainerGrant
}

var containerFields = form.Object[container]{
	form.Text("name", func(c *container) *string { return &c.asks.Name }),
	form.Named("lane", containerTypeNames, func(c *container) *request.ContainerType { return &c.asks.Type }),
	form.Nested("asks", asksFields, func(c *container) *request.Container { return c.asks }).Always(),
	form.Nested("has", grantFields, func(c *container) *node.ContainerGrant { return c.has }).Always(),
}

var asksFields = form.Object[request.Container]{
	form.Number("cpus", func(c *request.Container) *int { return &c.CPUs }),
	form.Named("sharing", sharingNames, func(c *request.Container) *request.Sharing { return &c.Sharing }),
	form.Amounts("memory", func(c *request.Container) *request.Amounts { return &c.Memory }),
	form.Texts("hugePages", func(c *request.Container) *[]string { return &c.HugePages }),
	form.Amounts("devices", func(c *request.Container) *request.Amounts { return &c.Devices }),
	form.Nested("cache", askedFields, func(c *request.Container) *request.Cache { return &c.Cache }),
	form.Flag("equivalent", func(c *request.Container) *bool { return &c.Equivalent }),
	form.Number("cpuRequestMilli", func(c *request.Container) *int64 { return &c.CPURequest }),
	form.Number("cpuLimitMilli", func(c *request.Container) *int64 { return &c.CPULimit }),
	form.Texts("claims", func(c *request.Container) *[]string { return &c.Claims }),
	form.Slice("given", form.Object[request.Given]{
		form.Text("resource", func(g *request.Given) *string { return &g.Resource }),
		form.Text("claim", func(g *request.Given) *string { return &g.Claim }),
		form.Text("driver", func(g *request.Given) *string { return &g.Driver }),
		form.Text("pool", func(g *request.Given) *string { return &g.Pool }),
		form.Text("name", func(g *request.Given) *string { return &g.Name }),
		form.Nodes("nodes", func(g *request.Given) *mask.Mask { return &g.Nodes }),
	}, func(c *request.Container) *[]request.Given { return &c.Given }, func(before, g *request.Given) bool {
		return (before == nil || before.Compare(g) < 0) && (g.Resource == "") != (g.Driver == "")
	}),
}

// askedFields are the members of what an annotation asks of the caches.
var askedFields = form.Object[request.Cache]{
	form.Number("ways", func(c *request.Cache) *int { return &c.Ways }),
	form.Number("percent", func(c *request.Cache) *int { return &c.Percent }),
	form.Number("bandwidth", func(c *request.Cache) *int { return &c.Bandwidth }),
}

var grantFields = form.Object[node.ContainerGrant]{
	form.CPUs("cpus", func(c *node.ContainerGrant) *cpuset.Set { return &c.CPUs }),
	form.CPUs("baseline", func(c *node.ContainerGrant) *cpuset.Set { return &c.Baseline }),
	form.Known(form.Slice("memory", blockFields, containerMemory, nil), containerMemory),
	form.Nodes("memoryNodes", func(c *node.ContainerGrant) *mask.Mask { return &c.MemoryNodes }),
	form.Devices("devices", func(c *node.ContainerGrant) *[]device.Assigned { return &c.Devices }),
	form.Class("cache", func(c *node.ContainerGrant) *cache.Class { return &c.Cache }),
	form.Nested("affinity", form.Object[hint.Choice]{
		form.Nodes("nodes", func(a *hint.Choice) *mask.Mask { return &a.Mask }),
		form.Flag("hasMask", func(a *hint.Choice) *bool { return &a.HasMask }),
		form.Flag("preferred", func(a *hint.Choice) *bool { return &a.Preferred }),
		form.Flag("admit", func(a *hint.Choice) *bool { return &a.Admit }),
	}, func(c *node.ContainerGrant) *hint.Choice { return &c.Affinity }).Always(),
	form.Flag("removed", func(c *node.ContainerGrant) *bool { return &c.Removed }),
}

func containerMemory(c *node.ContainerGrant) *[]memory.Block { return &c.Memory }

var stockFields = form.Object[request.Stock]{
	form.Text("of", func(s *request.Stock) *string { return &s.Of }).Always(),
	form.Slice("places", form.Object[request.Place]{
		form.Nodes("nodes", func(p *request.Place) *mask.Mask { return &p.Nodes }).Always(),
		form.Number("devices", func(p *request.Place) *int { return &p.Devices }).Always(),
	}, func(s *request.Stock) *[]request.Place { return &s.Places }, func(before, p *request.Place) bool {
		return (before == nil || before.Nodes < p.Nodes) && !p.Nodes.IsEmpty() && p.Devices > 0
	}).Always(),
}

// claimFields are the members of a claim. A claim without devices has an empty list if that is
// known, and no list if it is not. The same applies to the requests of a device.
var claimFields = form.Object[request.Claim]{
	form.Text("name", func(c *request.Claim) *string { return &c.Name }).Always(),
	form.Slice("uses", form.Object[request.ClaimUse]{
		form.Text("container", func(u *request.ClaimUse) *string { return &u.Container }).Always(),
		form.Text("request", func(u *request.ClaimUse) *string { return &u.Request }),
	}, func(c *request.Claim) *[]request.ClaimUse { return &c.Uses }, func(before, u *request.ClaimUse) bool {
		return before == nil || before.Compare(*u) < 0
	}).Always(),
	form.Known(form.Slice("devices", form.Object[request.ClaimDevice]{
		form.Text("driver", func(d *request.ClaimDevice) *string { return &d.Driver }).Always(),
		form.Text("pool", func(d *request.ClaimDevice) *string { return &d.Pool }).Always(),
		form.Text("name", func(d *request.ClaimDevice) *string { return &d.Name }).Always(),
		form.Text("share", func(d *request.ClaimDevice) *string { return &d.ShareID }),
		form.Known(form.Texts("requests", claimRequests), claimRequests),
		form.Texts("cdi", func(d *request.ClaimDevice) *[]string { return &d.CDI }),
	}, claimDevices, func(before, d *request.ClaimDevice) bool {
		return before == nil || before.Compare(d) < 0
	}), claimDevices),
}

func claimDevices(c *request.Claim) *[]request.ClaimDevice { return &c.Devices }

func claimRequests(d *request.ClaimDevice) *[]string { return &d.Requests }
