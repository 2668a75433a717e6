package node_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// modelled is the number of histories that a test run compares with the model. To run more, use
// -rapid.checks.
const modelled = "200"

// TestModel runs random histories beside a model of the node that is as simple as possible: maps
// from resources to pods. The model decides nothing. It takes what a pod is given, proves that it
// may be given, keeps it while containers come and go, and compares it with the state at every
// step. Every step is also a restart.
func TestModel(t *testing.T) {
	modelHistories(t, start)
}

// TestModelOfMemory is TestModel with scarce memory.
func TestModelOfMemory(t *testing.T) { modelHistories(t, startTight) }

func modelHistories(t *testing.T, start func(*rapid.T) *history) {
	t.Helper()
	setChecksTo(t, modelled)
	rejected, proposed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := start(t)
		m := newModel(h)
		for range h.intn(1, 10, "steps") {
			done := len(h.blocks)
			before := h.state()
			h.step()
			m.follow(before, done)
			m.compare()
			h.checkRestart()
			if name := h.rejected(done); name != "" {
				rejected++
				if h.chance(4, "look for proposals") {
					proposed += h.checkProposals(name)
				}
			}
		}
		h.checkReport()
	})
	t.Logf("%d pods rejected, %d proposals proven", rejected, proposed)
}

// model records what each pod has.
type model struct {
	h    *history
	pods map[string]*modelPod
}

// modelPod is what a pod has. A pod with a pool keeps the pool while a container has a part of it.
type modelPod struct {
	cpuPool    map[int]bool
	memoryPool []modelBlock
	containers []modelContainer
	asks       request.Pod
	// base and poolBase are the CPUs with which the containers and the pool were admitted. admitted
	// is what was asked for then, under policy.
	policy   node.Policy
	base     []map[int]bool
	poolBase map[int]bool
	admitted request.Pod
}

type modelContainer struct {
	cpus    map[int]bool
	memory  []modelBlock
	devices map[string]bool // "resource id"
	removed bool
}

// modelBlock is an amount of memory, in bytes, of a type on a set of NUMA nodes.
type modelBlock struct {
	typ   string
	bytes int64
	nodes []int
}

func newModel(h *history) *model { return &model{h: h, pods: map[string]*modelPod{}} }

// numbers returns the CPUs of a set.
func (m *model) numbers(set cpuset.Set) map[int]bool {
	out := map[int]bool{}
	for _, c := range m.h.state().Machine().CPUs() {
		if set.Has(c.ID) {
			out[c.ID] = true
		}
	}
	if len(out) != set.Len() {
		m.h.fatalf("CPUs %s are not all on the machine", set)
	}
	return out
}

// follow applies the commands since block number done to the model.
func (m *model) follow(before *node.State, done int) {
	for _, b := range m.h.blocks[done:] {
		if b.Command.Name == "config" || len(b.Command.Args) == 0 {
			continue
		}
		name, container, _ := strings.Cut(b.Command.Args[0], "/")
		switch b.Command.Name {
		case "admit":
			m.admit(before, name, b.Answer[0])
		case "resize":
			m.resize(name)
		case "move":
			m.move(name)
		case "remove":
			delete(m.pods, name)
		case "remove-container":
			m.pods[name].remove(container)
		case "created":
			m.pods[name].created(container)
		}
	}
}

// admit records what a new pod is given. A release of the pod must leave the node as it was.
func (m *model) admit(before *node.State, name, answer string) {
	if _, known := m.pods[name]; known || !strings.HasPrefix(answer, "admitted") {
		m.checkRejection(before, name, answer)
		return
	}
	g, there := m.h.state().Grant(name)
	if !there {
		m.h.fatalf("%s is admitted, and is not on the node", name)
	}
	p := m.pod(g)
	p.poolBase, p.admitted, p.policy = p.cpuPool, g.Pod, m.h.state().Policy()
	for _, c := range p.containers {
		p.base = append(p.base, c.cpus)
	}
	m.checkGiven(p)
	m.pods[name] = p
	if released := m.h.state().Release(name); fmt.Sprintf("%+v", released.Memory().Nodes()) != fmt.Sprintf("%+v", before.Memory().Nodes()) ||
		!released.SharedCPUs().Equal(before.SharedCPUs()) || !released.Devices().Equal(before.Devices()) ||
		!slices.Equal(released.Grants(), before.Grants()) {
		m.h.fatalf("%s is admitted and released, and the node is not as it was", name)
	}
}

// pod returns what a grant gives.
func (m *model) pod(g *node.Grant) *modelPod {
	p := &modelPod{asks: g.Pod, cpuPool: m.numbers(g.Pool)}
	for _, b := range g.PoolMemory {
		p.memoryPool = append(p.memoryPool, modelBlock{b.Type, b.Size, b.Nodes.Nodes()})
	}
	for _, c := range g.Containers {
		own := modelContainer{cpus: m.numbers(c.CPUs), devices: map[string]bool{}}
		for _, b := range c.Memory {
			own.memory = append(own.memory, modelBlock{b.Type, b.Size, b.Nodes.Nodes()})
		}
		for _, assigned := range c.Devices {
			for _, id := range assigned.IDs {
				own.devices[assigned.Resource+" "+id] = true
			}
		}
		if c.Removed {
			own = modelContainer{removed: true}
		}
		p.containers = append(p.containers, own)
	}
	return p
}

func (p *modelPod) index(container string) int {
	return slices.IndexFunc(p.asks.Containers, func(c request.Container) bool { return c.Name == container })
}

// remove changes nothing the second time, even if the memory of init containers has ended since.
func (p *modelPod) remove(container string) {
	c := &p.containers[p.index(container)]
	if c.removed {
		return
	}
	*c = modelContainer{removed: true}
	if !slices.ContainsFunc(p.containers, func(c modelContainer) bool { return len(c.cpus) > 0 }) {
		p.cpuPool = nil
	}
	if !slices.ContainsFunc(p.containers, func(c modelContainer) bool { return len(c.memory) > 0 }) {
		p.memoryPool = nil
	}
}

// created applies R-MEM-63: the memory of standard init containers ends with the next container.
func (p *modelPod) created(container string) {
	for i := range p.index(container) {
		if p.asks.Containers[i].Type == request.Init {
			p.containers[i].memory = nil
		}
	}
}

// cpus returns all CPUs that the pod has.
func (p *modelPod) cpus() map[int]bool {
	all := maps.Clone(p.cpuPool)
	if all == nil {
		all = map[int]bool{}
	}
	for _, c := range p.containers {
		maps.Copy(all, c.cpus)
	}
	return all
}

// blocks returns all blocks that the pod has.
func (p *modelPod) blocks() []modelBlock {
	if len(p.memoryPool) > 0 {
		return p.memoryPool
	}
	var all []modelBlock
	for _, c := range p.containers {
		all = append(all, c.memory...)
	}
	return all
}

func (p *modelPod) devices() map[string]bool {
	all := map[string]bool{}
	for _, c := range p.containers {
		maps.Copy(all, c.devices)
	}
	return all
}

// compare checks that every CPU, byte and device is where the state has it.
func (m *model) compare() {
	s := m.h.state()
	if len(s.Grants()) != len(m.pods) {
		m.h.fatalf("%d pods are on the node, want %d", len(s.Grants()), len(m.pods))
	}
	for _, g := range s.Grants() {
		if p := m.pods[g.Pod.UID]; p == nil || !maps.Equal(m.numbers(g.CPUs()), p.cpus()) {
			m.h.fatalf("%s has CPUs %s, want %v", g.Pod.UID, g.CPUs(), p)
		}
	}
	m.compareCPUs()
	m.compareMemory()
	m.compareDevices()
}

// compareCPUs checks that a CPU belongs to one pod, to the node shared pool or, under strict
// reservation, to the system.
func (m *model) compareCPUs() {
	s := m.h.state()
	owner := map[int]string{}
	for name, p := range m.pods {
		for id := range p.cpus() {
			if other, taken := owner[id]; taken {
				m.h.fatalf("CPU %d belongs to %s and to %s", id, other, name)
			}
			owner[id] = name
		}
	}
	for _, c := range s.Machine().CPUs() {
		reserved := s.Policy().ReservedCPUs.Has(c.ID)
		if owner[c.ID] != "" && reserved {
			m.h.fatalf("CPU %d is reserved, and belongs to %s", c.ID, owner[c.ID])
		}
		want := s.Policy().StaticCPU && owner[c.ID] == "" && (!reserved || !s.Policy().CPU.StrictReservation) &&
			!(m.h.usesIsolated() && s.Machine().Isolation().Isolated.Has(c.ID))
		if s.SharedCPUs().Has(c.ID) != want {
			m.h.fatalf("CPU %d in the node shared pool: %v, want %v", c.ID, !want, want)
		}
	}
}

// allocatable returns how much of a type pods can have on a NUMA node.
func (m *model) allocatable(id int, typ string) int64 {
	n, _ := m.h.state().Machine().Node(id)
	var huge, own int64
	for _, pages := range n.HugePages {
		bytes := pages.Count * pages.SizeKiB * 1024
		huge += bytes
		if typ == fmt.Sprintf("hugepages-%dMi", pages.SizeKiB/1024) {
			own = bytes
		}
	}
	if typ == "memory" {
		own = n.Memory - huge
	}
	return own - m.h.state().Policy().ReservedMemory[id][typ]
}

// compareMemory checks that bytes of several NUMA nodes fill the lowest one first, that sets of
// NUMA nodes are equal or disjoint, and that nothing is assigned twice.
func (m *model) compareMemory() {
	s := m.h.state()
	used := map[int]map[string]int64{} // by NUMA node and type
	blocks := map[int]int{}
	sets := map[int]string{}
	for _, id := range s.Machine().NodeMask().Nodes() {
		used[id] = map[string]int64{}
	}
	for name, p := range m.pods {
		for _, b := range p.blocks() {
			left := b.bytes
			for _, id := range b.nodes {
				if set := fmt.Sprint(b.nodes); sets[id] != "" && sets[id] != set {
					m.h.fatalf("NUMA node %d serves %s and %s", id, sets[id], set)
				} else {
					sets[id] = set
				}
				part := min(left, m.allocatable(id, b.typ)-used[id][b.typ])
				used[id][b.typ] += part
				left -= part
				blocks[id]++
			}
			if left > 0 {
				m.h.fatalf("%s has %d bytes of %s on NUMA nodes %v, %d more than there are", name, b.bytes, b.typ, b.nodes, left)
			}
		}
	}
	for _, n := range s.Memory().Nodes() {
		if n.Assignments != blocks[n.ID] {
			m.h.fatalf("NUMA node %d has %d blocks, want %d", n.ID, n.Assignments, blocks[n.ID])
		}
		for t, typ := range s.Memory().Capacity().Types() {
			if free := m.allocatable(n.ID, typ) - used[n.ID][typ]; n.Reserved[t] != used[n.ID][typ] || n.Free[t] != free {
				m.h.fatalf("NUMA node %d has %d of %s assigned and %d free, want %d and %d",
					n.ID, n.Reserved[t], typ, n.Free[t], used[n.ID][typ], free)
			}
		}
	}
}

// compareDevices checks that a device belongs to one pod. Devices that are gone are only with their
// pod.
func (m *model) compareDevices() {
	want, assigned := map[string]bool{}, map[string]bool{}
	for name, p := range m.pods {
		for d := range p.devices() {
			resource, id, _ := strings.Cut(d, " ")
			if _, known := m.h.state().Devices().Inventory().Device(resource, id); !known {
				continue
			}
			if want[d] {
				m.h.fatalf("%s and another pod have device %s", name, d)
			}
			want[d] = true
		}
	}
	for _, x := range m.h.state().Devices().Assigned() {
		for _, id := range x.IDs {
			assigned[x.Resource+" "+id] = true
		}
	}
	if !maps.Equal(want, assigned) {
		m.h.fatalf("devices %v are assigned, want %v", slices.Sorted(maps.Keys(assigned)), slices.Sorted(maps.Keys(want)))
	}
}
