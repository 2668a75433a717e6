package node_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// checkGiven proves what a pod is given at its admission. compare proves that no other pod is given
// it.
func (m *model) checkGiven(p *modelPod) {
	for i, c := range p.containers {
		m.checkContainer(p, i, c)
	}
	m.checkPool(p)
	m.live(p)
	switch policy := m.h.state().Policy(); {
	case policy.Topology == node.TopologySingleNUMANode && policy.Scope == node.PodScope:
		m.checkOneNode(p.asks.Name, p.cpus(), p.blocks(), p.devices())
	case policy.Topology == node.TopologySingleNUMANode:
		for i, c := range p.containers {
			m.checkOneNode(p.asks.Name+"/"+p.asks.Containers[i].Name, c.cpus, c.memory, c.devices)
		}
	case policy.Topology == node.TopologyRestricted && policy.Scope == node.PodScope:
		m.checkFewestNodes(p.asks.Name, m.sum(p), p.blocks())
	case policy.Topology == node.TopologyRestricted:
		for i, c := range p.containers {
			m.checkFewestNodes(p.asks.Name+"/"+p.asks.Containers[i].Name, p.asks.Containers[i].Memory, c.memory)
		}
	}
}

// managed reports whether the managers give the pod its own CPUs or memory.
func (m *model) managed(p request.Pod) (cpus, memory bool) {
	policy := m.h.state().Policy()
	if p.Kind == request.Unmanaged {
		return false, false
	}
	return policy.StaticCPU, policy.StaticMemory && p.QoS == request.Guaranteed
}

// pooled reports whether the pod gets a pool.
func (m *model) pooled(p request.Pod) bool {
	policy := m.h.state().Policy()
	return p.Kind == request.PodLevel && policy.Topology != node.TopologyNone && policy.Scope == node.PodScope
}

// checkContainer checks that a container that qualifies has as many CPUs and bytes as it asks for.
func (m *model) checkContainer(p *modelPod, i int, c modelContainer) {
	asks := p.asks.Containers[i]
	name := p.asks.Name + "/" + asks.Name
	cpus, memory := m.managed(p.asks)
	if m.pooled(p.asks) {
		cpus, memory = cpus && p.asks.BudgetCPUs > 0, memory && len(p.asks.BudgetMemory) > 0
	}
	switch {
	case !cpus && len(c.cpus) > 0, !memory && len(c.memory) > 0:
		m.h.fatalf("%s has CPUs %v and memory %v, and the managers are off for it", name, c.cpus, c.memory)
	case cpus && asks.CPUs > 0 && len(c.cpus) != asks.CPUs:
		m.h.fatalf("%s has CPUs %v, and asks for %d", name, c.cpus, asks.CPUs)
	case cpus && asks.CPUs == 0 && !m.pooled(p.asks) && len(c.cpus) > 0:
		m.h.fatalf("%s has CPUs %v, and asks for none", name, c.cpus)
	}
	if !memory {
		return
	}
	for _, a := range asks.Memory {
		var has int64
		for _, b := range c.memory {
			if b.typ == a.Resource {
				has += b.bytes
			}
		}
		// The bytes of a standard init container may already be those of a later container.
		if has != a.Value && (asks.Type != request.Init || has > a.Value) {
			m.h.fatalf("%s has %d bytes of %s, and asks for %d", name, has, a.Resource, a.Value)
		}
	}
}

// checkPool checks that a pool equals the budget, and that containers are within it.
func (m *model) checkPool(p *modelPod) {
	cpus, memory := m.managed(p.asks)
	if !m.pooled(p.asks) {
		if len(p.cpuPool) > 0 || len(p.memoryPool) > 0 {
			m.h.fatalf("%s has a pool", p.asks.Name)
		}
		return
	}
	if cpus && len(p.cpuPool) != p.asks.BudgetCPUs {
		m.h.fatalf("%s has a pool of %v, and a budget of %d CPUs", p.asks.Name, p.cpuPool, p.asks.BudgetCPUs)
	}
	for _, a := range p.asks.BudgetMemory {
		i := slices.IndexFunc(p.memoryPool, func(b modelBlock) bool { return b.typ == a.Resource })
		if memory && (i < 0 || p.memoryPool[i].bytes != a.Value) {
			m.h.fatalf("%s has memory %v, and a budget of %s", p.asks.Name, p.memoryPool, p.asks.BudgetMemory)
		}
	}
	for i, c := range p.containers {
		name := p.asks.Containers[i].Name
		if len(p.cpuPool) > 0 && len(c.cpus) == 0 {
			m.h.fatalf("%s/%s runs outside its pod's pool", p.asks.Name, name)
		}
		for id := range c.cpus {
			if !p.cpuPool[id] {
				m.h.fatalf("%s/%s has CPU %d outside its pod's pool", p.asks.Name, name, id)
			}
		}
		for _, b := range c.memory {
			k := slices.IndexFunc(p.memoryPool, func(x modelBlock) bool { return x.typ == b.typ && slices.Equal(x.nodes, b.nodes) })
			if k < 0 || b.bytes > p.memoryPool[k].bytes {
				m.h.fatalf("%s/%s has memory %v, its pod %v", p.asks.Name, name, b, p.memoryPool)
			}
		}
	}
}

// live simulates the pod's life: its init containers one after the other, beside the sidecars that
// started before, then all other containers together. The containers that run at the same time must
// have enough, and no two the same.
func (m *model) live(p *modelPod) {
	var sidecars []int
	for i, c := range p.asks.Containers {
		if c.Type == request.Init {
			m.moment(p, append(slices.Clone(sidecars), i))
		}
		if c.Type == request.Sidecar {
			sidecars = append(sidecars, i)
		}
	}
	running := slices.Clone(sidecars)
	for i, c := range p.asks.Containers {
		if c.Type == request.App {
			running = append(running, i)
		}
	}
	m.moment(p, running)
}

func (m *model) moment(p *modelPod, running []int) {
	owner, device := map[int]int{}, map[string]int{}
	bytes := map[string]int64{}
	for _, i := range running {
		asks := p.asks.Containers[i]
		for id := range p.containers[i].cpus {
			k, taken := owner[id]
			// An exclusive init container may run on CPUs of a sidecar that shares (R-CPU-92).
			beside := taken && asks.Type == request.Init && !p.asks.Containers[k].Exclusive()
			if taken && !beside && (asks.Exclusive() || p.asks.Containers[k].Exclusive()) {
				m.h.fatalf("%s: containers %s and %s run on CPU %d at once", p.asks.Name, p.asks.Containers[k].Name, asks.Name, id)
			}
			owner[id] = i
		}
		for d := range p.containers[i].devices {
			if k, taken := device[d]; taken {
				m.h.fatalf("%s: containers %s and %s use device %s at once", p.asks.Name, p.asks.Containers[k].Name, asks.Name, d)
			}
			device[d] = i
		}
		for _, a := range asks.Memory {
			bytes[a.Resource] += a.Value
		}
	}
	if _, memory := m.managed(p.asks); !memory {
		return
	}
	for typ, need := range bytes {
		var has int64
		for _, b := range p.blocks() {
			if b.typ == typ {
				has += b.bytes
			}
		}
		if has < need {
			m.h.fatalf("%s has %d bytes of %s, and its containers need %d at once", p.asks.Name, has, typ, need)
		}
	}
}

// checkOneNode checks that CPUs, memory and devices that report a NUMA node are all on the same
// NUMA node.
func (m *model) checkOneNode(name string, cpus map[int]bool, blocks []modelBlock, devices map[string]bool) {
	nodes := m.h.state().Machine().NodeMask().Nodes()
	possible := map[int]bool{}
	for _, id := range nodes {
		possible[id] = true
	}
	keep := func(ok func(id int) bool) {
		maps.DeleteFunc(possible, func(id int, _ bool) bool { return !ok(id) })
	}
	for _, c := range m.h.state().Machine().CPUs() {
		if cpus[c.ID] {
			keep(func(id int) bool { return id == c.Node })
		}
	}
	for _, b := range blocks {
		keep(func(id int) bool { return slices.Equal(b.nodes, []int{id}) })
	}
	for d := range devices {
		resource, id, _ := strings.Cut(d, " ")
		if x, _ := m.h.state().Devices().Inventory().Device(resource, id); !x.Nodes.IsEmpty() {
			keep(x.Nodes.Has)
		}
	}
	if len(possible) == 0 {
		m.h.fatalf("the policy is single-numa-node, and %s has CPUs %v, memory %v and devices %v, which are not on one NUMA node",
			name, slices.Sorted(maps.Keys(cpus)), blocks, slices.Sorted(maps.Keys(devices)))
	}
}

// sum returns the memory that the pod needs together, of types that an app container asks for
// (R-DEM-50).
func (m *model) sum(p *modelPod) request.Amounts {
	if p.asks.Kind == request.PodLevel {
		return p.asks.BudgetMemory
	}
	var sum request.Amounts
	for _, typ := range m.h.state().Memory().Capacity().Types() {
		var worst, sidecars, apps int64
		app := false
		for _, c := range p.asks.Containers {
			n, asked := c.Memory.Get(typ)
			switch c.Type {
			case request.Init:
				worst = max(worst, sidecars+n)
			case request.Sidecar:
				sidecars += n
			case request.App:
				apps, app = apps+n, app || asked
			}
		}
		if n := max(worst, sidecars+apps); app {
			sum = sum.With(typ, n)
		}
	}
	return sum
}

// checkFewestNodes checks that memory is together, on the smallest number of NUMA nodes that could
// ever have it.
func (m *model) checkFewestNodes(name string, amounts request.Amounts, blocks []modelBlock) {
	if len(blocks) == 0 {
		return
	}
	ids := m.h.state().Machine().NodeMask().Nodes()
	fewest := len(ids)
	for subset := 1; subset < 1<<len(ids); subset++ {
		var set []int
		for i, id := range ids {
			if subset>>i&1 == 1 {
				set = append(set, id)
			}
		}
		enough := true
		for _, a := range amounts {
			var has int64
			for _, id := range set {
				has += m.allocatable(id, a.Resource)
			}
			enough = enough && has >= a.Value
		}
		if enough {
			fewest = min(fewest, len(set))
		}
	}
	for _, b := range blocks {
		if len(b.nodes) != fewest || !slices.Equal(b.nodes, blocks[0].nodes) {
			m.h.fatalf("the policy is restricted, %s asks for %s, which %d NUMA nodes could hold, and has %v", name, amounts, fewest, blocks)
		}
	}
}

// checkRejection checks that a pod of one container without devices is rejected only if it does not
// fit, on a node without options: anywhere for policy none, on one NUMA node that its given devices
// are near for single-numa-node.
func (m *model) checkRejection(before *node.State, name, answer string) {
	policy := before.Policy()
	options := policy.CPU
	options.StrictReservation = false
	pod, err := m.h.n.Request(name)
	_, known := m.pods[name]
	if err != nil || known || fmt.Sprintf("%+v", options) != fmt.Sprintf("%+v", node.Policy{}.CPU) ||
		len(pod.Containers) != 1 || len(pod.Containers[0].Devices) > 0 || pod.Kind != request.Plain {
		return
	}
	ids := before.Machine().NodeMask().Nodes()
	cpus, memory := m.managed(pod)
	asks := pod.Containers[0]
	if !cpus {
		asks.CPUs = 0
	}
	if !memory {
		asks.Memory = nil
	}
	switch policy.Topology {
	case node.TopologyNone:
		if m.fitsCPUs(before, ids, asks.CPUs) && m.fitsMemory(before, ids, asks.Memory) {
			m.h.fatalf("%s fits, and is rejected: %s", name, answer)
		}
	case node.TopologySingleNUMANode:
		for _, id := range ids {
			remote := func(g request.Given) bool { return !g.Nodes.IsEmpty() && !g.Nodes.Has(id) }
			if !slices.ContainsFunc(asks.Given, remote) && m.fitsCPUs(before, []int{id}, asks.CPUs) && m.fitsMemory(before, []int{id}, asks.Memory) {
				m.h.fatalf("%s fits on NUMA node %d, and is rejected: %s", name, id, answer)
			}
		}
	case node.TopologyBestEffort, node.TopologyRestricted:
	}
}

// fitsCPUs reports whether that many CPUs of the NUMA nodes have no pod.
func (m *model) fitsCPUs(s *node.State, ids []int, n int) bool {
	free := 0
	for _, c := range s.Machine().CPUs() {
		owned := slices.ContainsFunc(slices.Collect(maps.Values(m.pods)), func(p *modelPod) bool { return p.cpus()[c.ID] })
		if !owned && slices.Contains(ids, c.Node) && !s.Policy().ReservedCPUs.Has(c.ID) {
			free++
		}
	}
	return free >= n
}

// fitsMemory reports whether one of the NUMA nodes, or a set of them, may serve the amounts and has
// enough. It may if it serves no other set.
func (m *model) fitsMemory(s *node.State, ids []int, amounts request.Amounts) bool {
	for subset := 1; subset < 1<<len(ids); subset++ {
		var set []int
		for i, id := range ids {
			if subset>>i&1 == 1 {
				set = append(set, id)
			}
		}
		fits := true
		left := map[string]int64{}
		for _, typ := range s.Memory().Capacity().Types() {
			for _, id := range set {
				left[typ] += m.allocatable(id, typ)
			}
		}
		for _, p := range m.pods {
			for _, b := range p.blocks() {
				switch {
				case slices.Equal(b.nodes, set):
					left[b.typ] -= b.bytes
				case slices.ContainsFunc(b.nodes, func(id int) bool { return slices.Contains(set, id) }):
					fits = false
				}
			}
		}
		for _, a := range amounts {
			fits = fits && left[a.Resource] >= a.Value
		}
		if fits {
			return true
		}
	}
	return len(amounts) == 0
}
