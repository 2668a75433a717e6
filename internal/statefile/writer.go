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

// writer turns values into the members of a file, as reader turns them back, and keeps the first
// error: the value that could not be read back.
type writer struct{ err error }

func (w *writer) refuse(key string, value any) {
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
	return x
}

func (w *writer) pod(g *node.Grant) *podText {
	p := &g.Pod
	x := &podText{
		UID: w.text("uid", p.UID), Namespace: w.text("namespace", p.Namespace), Name: w.text("name", p.Name), Sequence: g.Sequence,
		QoS: nameOf(w, "qos", qosNames, p.QoS), Kind: nameOf(w, "kind", kindNames, p.Kind), Estimated: p.Estimated,
		BudgetCPUs: number(w, "budgetCPUs", p.BudgetCPUs), BudgetCPUMilli: number(w, "budgetCPUMilli", p.BudgetCPUMilli),
		BudgetMemory: w.amounts("budgetMemory", p.BudgetMemory), CPULimit: number(w, "cpuLimitMilli", p.CPULimit),
		Priority: p.Priority, Created: number(w, "created", p.Created), Pool: g.Pool.String(), PoolMemory: w.blocks("poolMemory", g.PoolMemory),
	}
	if len(g.Containers) != len(p.Containers) {
		w.refuse("containers", len(g.Containers))
		return x
	}
	x.Containers = make([]containerText, len(p.Containers))
	for i := range p.Containers {
		x.Containers[i] = w.container(&p.Containers[i], &g.Containers[i])
	}
	return x
}

func (w *writer) container(asks *request.Container, has *node.ContainerGrant) containerText {
	a := has.Affinity
	return containerText{
		Name: w.text("name", asks.Name), Lane: nameOf(w, "lane", laneNames, asks.Lane),
		Asks: asksText{
			CPUs: number(w, "cpus", asks.CPUs), Sharing: nameOf(w, "sharing", sharingNames, asks.Sharing), Memory: w.amounts("memory", asks.Memory),
			HugePages: w.texts("hugePages", asks.HugePages), Devices: w.amounts("devices", asks.Devices), Equivalent: asks.Equivalent,
			CPURequest: number(w, "cpuRequestMilli", asks.CPURequest), CPULimit: number(w, "cpuLimitMilli", asks.CPULimit),
		},
		Has: grantText{
			CPUs: has.CPUs.String(), Memory: w.blocks("memory", has.Memory), MemoryNodes: has.MemoryNodes.Nodes(), Devices: w.devices("devices", has.Devices),
			Affinity: affinityText{Nodes: a.Mask.Nodes(), HasMask: a.HasMask, Preferred: a.Preferred, Admit: a.Admit}, Removed: has.Removed,
		},
	}
}

func (w *writer) text(key, text string) string {
	if !utf8.ValidString(text) {
		w.refuse(key, text)
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
		w.refuse(key, n)
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
			w.refuse(key, list)
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

func (w *writer) devices(key string, list []device.Held) map[string][]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string][]string, len(list))
	for i, h := range list {
		if i > 0 && list[i-1].Resource >= h.Resource {
			w.refuse(key, list)
		}
		m[w.text(key, h.Resource)] = append([]string{}, w.texts(key, h.IDs)...) // No device is [], not null.
	}
	return m
}

// nameOf is the name of a value; one that has none cannot be read back.
func nameOf[T comparable](w *writer, key string, n names[T], value T) string {
	text, ok := n.nameOf(value)
	if !ok {
		w.refuse(key, value)
	}
	return text
}
