package discover

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// combine makes a MachineInfo of the parts, as cAdvisor would on the node.
func (p *parts) combine() (*model.MachineInfo, error) {
	nodes, err := p.nodes()
	if err != nil {
		return nil, err
	}
	for _, other := range p.placement {
		if err := p.compare(other); err != nil {
			return nil, err
		}
	}
	sockets := map[int]bool{}
	shared := map[int]int{} // CPUs by L3 cache
	for _, t := range p.cpus.threads {
		sockets[t.socket] = true
		shared[t.l3]++
	}
	info := &model.MachineInfo{NumCores: len(p.cpus.threads), NumSockets: len(sockets)}
	for _, id := range nodes.Nodes() {
		n := model.Node{Id: id, Cores: p.cpus.cores(id)}
		addCaches(&n, p.cpus, shared)
		if p.numa != nil {
			n.Distances = p.numa.distances[id]
		}
		if err := p.addMemory(&n); err != nil {
			return nil, err
		}
		info.NumPhysicalCores += len(n.Cores)
		info.MemoryCapacity += n.Memory
		info.Topology = append(info.Topology, n)
	}
	p.noteMemory(nodes)
	if nodes.Len() > 1 && (p.numa == nil || len(p.numa.distances) == 0) {
		p.note("%s: the distances between NUMA nodes are not known: add the output of %s", p.name, numaCommand)
	}
	return info, nil
}

// nodes returns the NUMA nodes of the machine. The kubelet's memory state and numactl list all of
// them, and lscpu lists those with CPUs. If the kernel reports no NUMA nodes for the CPUs, the CPUs
// are on the only NUMA node of the other files.
func (p *parts) nodes() (mask.Mask, error) {
	var all mask.Mask
	var from string
	if p.numa != nil {
		all, from = p.numa.nodes, p.numa.file
	}
	if p.memory != nil && len(p.memory.Nodes) > 0 {
		var counted mask.Mask
		for _, id := range sortedKeys(p.memory.Nodes) {
			if err := checkNode(id); err != nil {
				return all, fmt.Errorf("%s: %w", p.memory.File, err)
			}
			counted = counted.With(id)
		}
		if p.numa != nil && counted != all {
			return all, fmt.Errorf("%s: %s has NUMA nodes %s, and %s has %s: %s", p.name, p.memory.File, counted.List(), from, all.List(), sameNode)
		}
		all, from = counted, p.memory.File
	}
	for i, t := range p.cpus.threads {
		if t.node == unknown {
			if all.Len() > 1 {
				return all, fmt.Errorf("%s: %s does not have the NUMA nodes of the CPUs, and %s has NUMA nodes %s: run %s again", p.name, p.cpus.file, from, all.List(), tableCommand)
			}
			if i == 0 {
				p.note("%s has no NUMA nodes: all CPUs are taken as on NUMA node %d, the only one of %s", p.cpus.file, all.Lowest(), from)
			}
			p.cpus.threads[i].node = all.Lowest()
		} else if !all.Has(t.node) {
			return all, fmt.Errorf("%s: CPU %d is on NUMA node %d in %s, and %s has no such NUMA node (it has %s): %s", p.name, t.id, t.node, p.cpus.file, from, all.List(), sameNode)
		}
	}
	return all, nil
}

// compare returns an error if lscpu and another file list a CPU on different NUMA nodes, or if only
// one of them lists it.
func (p *parts) compare(other placement) error {
	on := map[int]int{}
	complete := len(other.cpus) > 0
	for _, node := range sortedKeys(other.cpus) {
		complete = complete && other.cpus[node].listed
		for cpu := range other.cpus[node].set.All() {
			if at, twice := on[cpu]; twice {
				return fmt.Errorf("%s: CPU %d is on NUMA nodes %d and %d", other.file, cpu, at, node)
			}
			on[cpu] = node
		}
	}
	for _, t := range p.cpus.threads {
		node, ok := on[t.id]
		switch {
		case ok && node != t.node:
			return fmt.Errorf("%s: CPU %d is on NUMA node %d in %s, and on NUMA node %d in %s: %s", p.name, t.id, t.node, p.cpus.file, node, other.file, sameNode)
		case !ok && complete:
			return fmt.Errorf("%s: CPU %d is online on NUMA node %d in %s, and on no NUMA node in %s: %s", p.name, t.id, t.node, p.cpus.file, other.file, sameNode)
		}
		delete(on, t.id)
	}
	if rest := sortedKeys(on); len(rest) > 0 {
		cpu, what := rest[0], "is missing"
		if p.cpus.offline.Has(cpu) {
			what = "is offline"
		}
		return fmt.Errorf("%s: CPU %d %s in %s, and is on NUMA node %d in %s: %s", p.name, cpu, what, p.cpus.file, on[cpu], other.file, sameNode)
	}
	return nil
}

// cores returns the cores of a NUMA node, ascending by their lowest CPU. Like cAdvisor, it takes
// CPUs as threads of one core if they have the same core id on the same socket and NUMA node.
func (l *cpuList) cores(node int) []model.Core {
	type key struct{ socket, core int }
	at := map[key]int{}
	var cores []model.Core
	for _, t := range l.threads {
		if t.node != node {
			continue
		}
		k := key{t.socket, t.core}
		i, ok := at[k]
		if !ok {
			i = len(cores)
			at[k] = i
			cores = append(cores, model.Core{Id: t.core, SocketID: t.socket})
		}
		cores[i].Threads = append(cores[i].Threads, t.id)
	}
	return cores
}

// addCaches adds the L3 caches of the cores of a NUMA node. Like cAdvisor, it assigns a cache with
// as many CPUs as the NUMA node to the NUMA node, and any other cache to the core, as an uncore
// cache. shared has the number of CPUs of each cache.
func addCaches(n *model.Node, l *cpuList, shared map[int]int) {
	for i := range n.Cores {
		core := &n.Cores[i]
		at, _ := slices.BinarySearchFunc(l.threads, core.Threads[0], func(t thread, id int) int { return t.id - id })
		id := l.threads[at].l3
		if id == unknown {
			continue
		}
		c := model.Cache{Id: id, Level: 3, Type: "Unified"}
		if shared[id] != len(n.Cores)*len(core.Threads) {
			core.UncoreCaches = append(core.UncoreCaches, c)
		} else if !slices.Contains(n.Caches, c) {
			n.Caches = append(n.Caches, c)
		}
	}
}

// addMemory sets the memory of a NUMA node to what the kubelet counts, or otherwise to what numactl
// lists.
func (p *parts) addMemory(n *model.Node) error {
	if p.memory == nil || len(p.memory.Nodes) == 0 {
		mib, ok := p.numa.mib[n.Id]
		if !ok {
			return p.missing(fmt.Sprintf("%s does not have the size of NUMA node %d", p.numa.file, n.Id), "a copy of the node's "+memoryFile)
		}
		n.Memory = mib << 20
		return nil
	}
	counted := p.memory.Nodes[n.Id]
	n.Memory = counted.Total
	for name, bytes := range counted.HugePages {
		kib, ok := pageSize(name)
		if !ok || bytes%(kib*1024) != 0 {
			return fmt.Errorf("%s: NUMA node %d has %d bytes of %q, expected a number of huge pages of this size", p.memory.File, n.Id, bytes, name)
		}
		n.HugePages = append(n.HugePages, model.HugePagesInfo{PageSize: kib, NumPages: bytes / (kib * 1024)})
	}
	slices.SortFunc(n.HugePages, func(a, b model.HugePagesInfo) int { return cmp.Compare(a.PageSize, b.PageSize) })
	return nil
}

var hugePages = regexp.MustCompile(`^hugepages-([1-9]\d{0,5})(Ki|Mi|Gi|Ti)$`)

// pageSize returns the size in KiB of the huge pages of a resource such as "hugepages-2Mi".
func pageSize(resource string) (uint64, bool) {
	m := hugePages.FindStringSubmatch(resource)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 32)
	return n << map[string]int{"Ki": 0, "Mi": 10, "Gi": 20, "Ti": 30}[m[2]], err == nil
}

// noteMemory adds notes about memory whose size is not known exactly, and about memory that
// changed.
func (p *parts) noteMemory(nodes mask.Mask) {
	if p.memory != nil {
		p.notes = append(p.notes, p.memory.Notes...)
	}
	if p.memory == nil || len(p.memory.Nodes) == 0 {
		if p.memory != nil {
			p.note("%s has the memory of the NUMA nodes rounded down to MiB and no huge pages: the policy of the kubelet's Memory Manager is None (%s), so that it decides by neither", p.numa.file, p.memory.File)
			return
		}
		remedy := fmt.Sprintf("add a copy of the node's %s", memoryFile)
		p.note("%s has the memory of the NUMA nodes in MiB, rounded down: the kubelet counts up to 1 MiB more on each; %s", p.numa.file, remedy)
		p.note("%s has no huge pages: none are assumed; %s", p.numa.file, remedy)
		return
	}
	if p.numa == nil {
		return
	}
	for _, id := range nodes.Nodes() {
		mib, ok := p.numa.mib[id]
		if counted := p.memory.Nodes[id].Total; ok && counted>>20 != mib {
			p.note("NUMA node %d has %d MiB in %s, and %d MiB in %s: the kubelet counted when it started, and this is used", id, counted>>20, p.memory.File, mib, p.numa.file)
		}
	}
}
