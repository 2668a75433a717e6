package statefile

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// writer converts values into the members of a file, the inverse of reader. It keeps the first
// error, which is about a value that could not be read back.
type writer struct{ err error }

func (w *writer) reject(key string, value any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s %q", ErrNotEncodable, key, fmt.Sprint(value))
	}
}

func (w *writer) policy(p node.Policy) *policyText {
	x := &policyText{
		Topology: nameOf(w, "topologyManagerPolicy", topologyNames, p.Topology), Scope: nameOf(w, "topologyManagerScope", scopeNames, p.Scope),
		TopologyOptions: topologyOptions.on(p), CPU: nameOf(w, "cpuManagerPolicy", cpuPolicyNames, p.StaticCPU), CPUOptions: cpuOptions.on(p),
		ReservedCPUs: p.ReservedCPUs.String(), Memory: nameOf(w, "memoryManagerPolicy", memoryPolicyNames, p.StaticMemory), FeatureGates: featureGates.on(p),
	}
	for _, id := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		if limits := p.ReservedMemory[id]; len(limits) > 0 {
			x.ReservedMemory = append(x.ReservedMemory, reservedText{Node: id, Limits: w.amounts("reservedMemory", amountsOf(limits))})
		}
	}
	if m := p.Moves; m.Pods > 0 {
		x.Moves = &movesText{m.Pods, m.All, number(w, "moves", m.Bytes), m.AnyKernel}
	}
	return x
}

func (w *writer) pod(g *node.Grant) *podText {
	p := &g.Pod
	x := &podText{
		UID: w.text("uid", p.UID), Namespace: w.text("namespace", p.Namespace), Name: w.text("name", p.Name), Sequence: g.Sequence, Resized: g.Resized,
		QoS: nameOf(w, "qos", qosNames, p.QoS), Kind: nameOf(w, "kind", kindNames, p.Kind), Estimated: p.Estimated,
		BudgetCPUs: number(w, "budgetCPUs", p.BudgetCPUs), BudgetCPUMilli: number(w, "budgetCPUMilli", p.BudgetCPUMilli),
		BudgetMemory: w.amounts("budgetMemory", p.BudgetMemory), CPULimit: number(w, "cpuLimitMilli", p.CPULimit),
		Priority: p.Priority, Created: number(w, "created", p.Created), Moves: nameOf(w, "moves", consentNames, p.Moves), Stock: w.stock(p.Stock),
		DevicesUnknown: w.text("devicesUnknown", p.DevicesUnknown), ResourceClaims: w.claims(p.ResourceClaims), Pool: g.Pool.String(), PoolBaseline: g.PoolBaseline.String(), PoolMemory: w.blocks("poolMemory", g.PoolMemory),
	}
	if len(g.Containers) != len(p.Containers) {
		w.reject("containers", len(g.Containers))
		return x
	}
	if to := g.Moving; to != nil {
		if len(to.Containers) != len(g.Containers) || to.Moving != nil {
			w.reject("moving", len(to.Containers))
			return x
		}
		x.Moving = &movingText{Pool: to.Pool.String(), PoolBaseline: to.PoolBaseline.String(), PoolMemory: w.blocks("poolMemory", to.PoolMemory), Containers: make([]grantText, len(to.Containers))}
		for i := range to.Containers {
			x.Moving.Containers[i] = w.has(&to.Containers[i])
		}
	}
	x.Containers = make([]containerText, len(p.Containers))
	for i := range p.Containers {
		x.Containers[i] = w.container(&p.Containers[i], &g.Containers[i])
	}
	return x
}

func (w *writer) container(asks *request.Container, has *node.ContainerGrant) containerText {
	return containerText{
		Name: w.text("name", asks.Name), Type: nameOf(w, "lane", containerTypeNames, asks.Type),
		Asks: asksText{
			CPUs: number(w, "cpus", asks.CPUs), Sharing: nameOf(w, "sharing", sharingNames, asks.Sharing), Memory: w.amounts("memory", asks.Memory),
			HugePages: w.texts("hugePages", asks.HugePages), Devices: w.amounts("devices", asks.Devices), Equivalent: asks.Equivalent,
			CPURequest: number(w, "cpuRequestMilli", asks.CPURequest), CPULimit: number(w, "cpuLimitMilli", asks.CPULimit),
			Claims: w.texts("claims", asks.Claims), Given: w.given(asks.Given),
		},
		Has: w.has(has),
	}
}

func (w *writer) has(has *node.ContainerGrant) grantText {
	a := has.Affinity
	return grantText{
		CPUs: has.CPUs.String(), Baseline: has.Baseline.String(), Memory: w.blocks("memory", has.Memory), MemoryNodes: has.MemoryNodes.Nodes(), Devices: w.devices("devices", has.Devices),
		Affinity: affinityText{Nodes: a.Mask.Nodes(), HasMask: a.HasMask, Preferred: a.Preferred, Admit: a.Admit}, Removed: has.Removed,
	}
}

func (w *writer) text(key, text string) string {
	if !utf8.ValidString(text) {
		w.reject(key, text)
	}
	return text
}

func (w *writer) texts(key string, list []string) []string {
	for _, text := range list {
		w.text(key, text)
	}
	return list
}

func number[T int | int64](w *writer, key string, n T) T {
	if n < 0 {
		w.reject(key, n)
	}
	return n
}

func (w *writer) amounts(key string, list request.Amounts) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]int64, len(list))
	for i, a := range list {
		if i > 0 && list[i-1].Resource >= a.Resource {
			w.reject(key, list)
		}
		m[w.text(key, a.Resource)] = number(w, key, a.Value)
	}
	return m
}

func (w *writer) blocks(key string, list []memory.Block) []blockText {
	blocks := make([]blockText, len(list))
	for i, b := range list {
		blocks[i] = blockText{Type: w.text(key, b.Type), Size: number(w, "bytes", b.Size), Nodes: b.Nodes.Nodes()}
	}
	return blocks
}

func (w *writer) devices(key string, list []device.Assigned) map[string][]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string][]string, len(list))
	for i, h := range list {
		if i > 0 && list[i-1].Resource >= h.Resource {
			w.reject(key, list)
		}
		m[w.text(key, h.Resource)] = append([]string{}, w.texts(key, h.IDs)...) // No devices are [], not null.
	}
	return m
}

func (w *writer) given(list []request.Given) []givenText {
	given := make([]givenText, len(list))
	for i, g := range list {
		if i > 0 && list[i-1].Compare(&g) >= 0 || (g.Resource == "") == (g.Driver == "") {
			w.reject("given", list)
		}
		given[i] = givenText{
			Resource: w.text("resource", g.Resource), Claim: w.text("claim", g.Claim), Driver: w.text("driver", g.Driver),
			Pool: w.text("pool", g.Pool), Name: w.text("name", g.Name), Nodes: g.Nodes.Nodes(),
		}
	}
	return given
}

func (w *writer) stock(list []request.Stock) []stockText {
	stock := make([]stockText, len(list))
	for i, s := range list {
		if i > 0 && list[i-1].Of >= s.Of {
			w.reject("stock", s.Of)
		}
		stock[i] = stockText{Of: w.text("stock", s.Of), Places: make([]placeText, len(s.Places))}
		for k, p := range s.Places {
			if k > 0 && s.Places[k-1].Nodes >= p.Nodes || p.Nodes.IsEmpty() || p.Devices <= 0 {
				w.reject("stock", s)
			}
			stock[i].Places[k] = placeText{Nodes: p.Nodes.Nodes(), Devices: p.Devices}
		}
	}
	return stock
}

func (w *writer) claims(list []request.Claim) []claimText {
	claims := make([]claimText, len(list))
	for i, c := range list {
		if i > 0 && list[i-1].Name >= c.Name {
			w.reject("resourceClaims", c.Name)
		}
		claims[i] = claimText{Name: w.text("resourceClaims", c.Name), Uses: make([]useText, len(c.Uses))}
		for k, u := range c.Uses {
			if k > 0 && c.Uses[k-1].Compare(u) >= 0 {
				w.reject("uses", u)
			}
			claims[i].Uses[k] = useText{w.text("container", u.Container), w.text("request", u.Request)}
		}
		if c.Devices == nil {
			continue
		}
		devices := make([]claimDeviceText, len(c.Devices))
		for k, d := range c.Devices {
			if k > 0 && c.Devices[k-1].Compare(&d) >= 0 {
				w.reject("devices", d)
			}
			devices[k] = claimDeviceText{
				Driver: w.text("driver", d.Driver), Pool: w.text("pool", d.Pool), Name: w.text("name", d.Name), Share: w.text("share", d.ShareID), CDI: w.texts("cdi", d.CDI),
			}
			if d.Requests != nil {
				requests := append([]string{}, w.texts("requests", d.Requests)...)
				devices[k].Requests = &requests
			}
		}
		claims[i].Devices = &devices
	}
	return claims
}

// nameOf returns the name of a value. It rejects a value without a name, which could not be read
// back.
func nameOf[T comparable](w *writer, key string, n names[T], value T) string {
	text, ok := n.nameOf(value)
	if !ok {
		w.reject(key, value)
	}
	return text
}
