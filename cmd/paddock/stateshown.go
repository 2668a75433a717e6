package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/statefile"
)

// shownState is a state file as it is shown, also in JSON.
type shownState struct {
	File    string `json:"file"`
	Manager string `json:"manager"`
	Version string `json:"version"`
	Policy  string `json:"policy"`
	// Holds tells whether the checksum that counts does.
	Holds        bool     `json:"checksumHolds"`
	Checksum     string   `json:"checksum"`
	DataChecksum string   `json:"dataChecksum,omitempty"`
	ReadBy       []string `json:"readBy"`
	Unknown      []string `json:"unknownFields,omitempty"`
	// SharedPool is the node's; nil where the file has no CPUs.
	SharedPool *string      `json:"sharedPool,omitempty"`
	Pods       []shownPod   `json:"pods"`
	NUMANodes  []shownTable `json:"numaNodes,omitempty"`

	checksum kubeletstate.Checksum
}

// shownPod is what a pod holds.
type shownPod struct {
	UID string `json:"uid"`
	// Name is "namespace/name" where it is known.
	Name string `json:"name,omitempty"`
	// Estimated tells that what it asks for was read from cgroup numbers.
	Estimated  bool             `json:"estimated,omitempty"`
	Pool       *shownHolding    `json:"pool,omitempty"`
	Containers []shownContainer `json:"containers"`
}

// title is what the pod is called.
func (p *shownPod) title() string { return cmp.Or(p.Name, p.UID) }

type shownContainer struct {
	Name string `json:"name"`
	shownHolding
}

// shownHolding is what a container holds, or a pod as a pod.
type shownHolding struct {
	CPUs string `json:"cpus,omitempty"`
	// NUMANodes are those of the CPUs, if the machine is known.
	NUMANodes string `json:"cpuNUMANodes,omitempty"`
	// Offline are the CPUs that the machine does not have online, if it is known.
	Offline string       `json:"offlineCPUs,omitempty"`
	Memory  []shownBlock `json:"memory,omitempty"`
}

type shownBlock struct {
	Type      string `json:"type"`
	Bytes     uint64 `json:"bytes"`
	NUMANodes []int  `json:"numaNodes"`
}

// shownTable is the book of one type of memory on one NUMA node.
type shownTable struct {
	ID             int    `json:"id"`
	Type           string `json:"type"`
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"held"`
	Free           uint64 `json:"free"`
	Assignments    int    `json:"assignments"`
	Group          []int  `json:"group"`
}

func holdingOf(cpus string, m *machine.Machine) shownHolding {
	h := shownHolding{CPUs: cpus}
	if set, err := cpuset.Parse(cpus); err == nil && m != nil {
		h.NUMANodes = nodeList(m.NodesOf(set).Nodes())
		h.Offline = set.Difference(m.AllCPUs()).String()
	}
	return h
}

func (s *shownState) fillCPU(c *kubeletstate.CPU, m *machine.Machine, pods map[string]*v1.Pod) {
	s.Policy, s.SharedPool, s.Pods = c.Policy, &c.Default, []shownPod{}
	uids := map[string]bool{}
	for uid := range c.Entries {
		uids[uid] = true
	}
	for uid := range c.Pools {
		uids[uid] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		p := newShownPod(uid, pods)
		if pool, has := c.Pools[uid]; has {
			h := holdingOf(pool.String(), m)
			p.Pool = &h
		}
		for _, name := range inOrder(c.Entries[uid], pods[uid]) {
			p.Containers = append(p.Containers, shownContainer{name, holdingOf(c.Entries[uid][name], m)})
		}
		s.Pods = append(s.Pods, p)
	}
	for _, id := range slices.Sorted(maps.Keys(c.ByID)) {
		s.Pods = append(s.Pods, shownPod{Containers: []shownContainer{{id, holdingOf(c.ByID[id], m)}}})
	}
}

func newShownPod(uid string, pods map[string]*v1.Pod) shownPod {
	p := shownPod{UID: uid, Containers: []shownContainer{}}
	if name := podName(pods, uid); name != uid {
		p.Name = name
	}
	return p
}

// inOrder are the names of containers as in the pod, or, where that is not known, ascending.
func inOrder[V any](entries map[string]V, pod *v1.Pod) []string {
	names := slices.Sorted(maps.Keys(entries))
	if pod == nil {
		return names
	}
	place := map[string]int{}
	for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		place[c.Name] = len(place)
	}
	rank := func(name string) int {
		if i, known := place[name]; known {
			return i
		}
		return len(place)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func (s *shownState) fillMemory(m *kubeletstate.Memory, pods map[string]*v1.Pod) {
	s.Policy, s.Pods = m.Policy, []shownPod{}
	uids := map[string]bool{}
	for uid := range m.Entries {
		uids[uid] = true
	}
	for uid := range m.Pools {
		uids[uid] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		p := newShownPod(uid, pods)
		if pool, has := m.Pools[uid]; has {
			p.Pool = &shownHolding{Memory: shownBlocks(pool)}
		}
		for _, name := range inOrder(m.Entries[uid], pods[uid]) {
			p.Containers = append(p.Containers, shownContainer{name, shownHolding{Memory: shownBlocks(m.Entries[uid][name])}})
		}
		s.Pods = append(s.Pods, p)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		n := m.Nodes[id]
		if n == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.Tables)) {
			if t := n.Tables[name]; t != nil {
				s.NUMANodes = append(s.NUMANodes, shownTable{id, name, t.Total, t.SystemReserved, t.Allocatable, t.Reserved, t.Free, n.Assignments, n.Cells})
			}
		}
	}
}

func shownBlocks(blocks []kubeletstate.Block) []shownBlock {
	var out []shownBlock
	for _, b := range blocks {
		out = append(out, shownBlock{b.Type, b.Size, b.Nodes})
	}
	slices.SortStableFunc(out, func(a, b shownBlock) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// shownOfGrants is Paddock's own file, CPUs and memory together.
func shownOfGrants(name string, f *statefile.File, m *machine.Machine) *shownState {
	s := &shownState{
		File: name, Manager: "Paddock", Version: strconv.Itoa(f.Version), Holds: true, Checksum: "valid", ReadBy: []string{"Paddock"}, Pods: []shownPod{},
		Policy: "revision " + strconv.FormatUint(f.Generation, 10),
	}
	shared := f.Machine.CPUs
	if f.Policy.CPU.StrictReservation {
		shared = shared.Difference(f.Policy.ReservedCPUs)
	}
	for _, g := range f.Grants {
		shared = shared.Difference(g.CPUs())
		p := shownPod{UID: g.Pod.UID, Name: g.Pod.ID(), Estimated: g.Pod.Estimated, Containers: []shownContainer{}}
		if g.HasPool() {
			h := holdingOf(g.Pool.String(), m)
			h.Memory = shownMemory(g.PoolMemory)
			p.Pool = &h
		}
		for i, c := range g.Containers {
			h := holdingOf(c.CPUs.String(), m)
			h.Memory = shownMemory(c.Memory)
			p.Containers = append(p.Containers, shownContainer{g.Pod.Containers[i].Name, h})
		}
		s.Pods = append(s.Pods, p)
	}
	if text := shared.String(); f.Policy.StaticCPU {
		s.SharedPool = &text
	}
	return s
}

func shownMemory(blocks []memory.Block) []shownBlock {
	var out []shownBlock
	for _, b := range blocks {
		out = append(out, shownBlock{b.Type, uint64(b.Size), b.Nodes.Nodes()})
	}
	return out
}
