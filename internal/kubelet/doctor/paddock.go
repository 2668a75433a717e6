package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// FromPaddock converts a file of Paddock, on its machine, to the state of a kubelet. The remarks
// name everything for which no kubelet's file has a place.
func FromPaddock(f *statefile.File, m *machine.Machine) (*State, []Remark, error) {
	state, err := node.Restore(m, f.Policy, f.Grants)
	if err != nil {
		return nil, nil, fmt.Errorf("the state is not valid on this machine: %w", err)
	}
	s := &State{
		CPU:    &kubeletstate.CPU{Policy: "none"},
		Memory: &kubeletstate.Memory{Policy: "None"},
	}
	if f.Policy.StaticCPU {
		s.CPU = &kubeletstate.CPU{Policy: "static", Default: state.SharedCPUs().String(), Entries: map[string]map[string]string{}, Pools: map[string]cpuset.Set{}}
	}
	if f.Policy.StaticMemory {
		s.Memory = &kubeletstate.Memory{Policy: "Static", Entries: map[string]map[string][]kubeletstate.Block{}, Pools: map[string][]kubeletstate.Block{}}
	}
	var c conversion
	for _, g := range f.Grants {
		s.addGrant(g)
		if g.Pod.Estimated && g.HasPool() {
			c.lose(g.Pod.UID, "its containers are not known, because its request was estimated from cgroup numbers: the kubelet gives its pool back for container %q, and runs its containers elsewhere", request.AnyContainer)
		}
		if len(g.Classes()) > 0 {
			c.lose(g.Pod.UID, "its parts of the caches have no place: a kubelet divides no caches, so its containers are in the default class")
		}
		for _, h := range g.Devices() {
			c.lose(g.Pod.UID, "its devices %s of %s have no place: the kubelet keeps them in kubelet_internal_checkpoint", strings.Join(h.IDs, ", "), h.Resource)
		}
	}
	if f.Policy.StaticMemory {
		fresh := newAccounting(state.Memory().Capacity())
		if err := fresh.chargeAll(s.Memory, true); err != nil {
			return nil, nil, err
		}
		s.Memory.Nodes = fresh
	}
	return s, c.remarks, nil
}

func (s *State) addGrant(g *node.Grant) {
	uid := g.Pod.UID
	cpus, blocks := map[string]string{}, map[string][]kubeletstate.Block{}
	for i, c := range g.Containers {
		name := g.Pod.Containers[i].Name
		if !c.CPUs.IsEmpty() {
			cpus[name] = c.CPUs.String()
		}
		if c.Memory != nil {
			blocks[name] = toBlocks(c.Memory)
		}
	}
	if len(cpus) > 0 && s.CPU.Entries != nil {
		s.CPU.Entries[uid] = cpus
		if !g.Pool.IsEmpty() {
			s.CPU.Pools[uid] = g.Pool
		}
	}
	if len(blocks) > 0 && s.Memory.Entries != nil {
		s.Memory.Entries[uid] = blocks
		if len(g.PoolMemory) > 0 {
			s.Memory.Pools[uid] = toBlocks(g.PoolMemory)
		}
	}
}

func toBlocks(list []memory.Block) []kubeletstate.Block {
	out := make([]kubeletstate.Block, len(list))
	for i, b := range list {
		out[i] = kubeletstate.Block{Nodes: b.Nodes.Nodes(), Type: b.Type, Size: uint64(b.Size)}
	}
	return out
}

// ToPaddock converts a kubelet's state to Paddock's state for a machine and a policy. pods are the
// running pods, in the order of their admission. If pods lacks a pod with assignments, or a pod
// lacks a container, ToPaddock returns an error, because their CPUs would otherwise be given to
// other pods. Containers that have ended and left their CPUs have no devices in the state.
func ToPaddock(s *State, m *machine.Machine, p node.Policy, pods []request.Pod) (*node.State, error) {
	return s.restore(pods, func(grants []*node.Grant) (*node.State, error) { return node.Restore(m, p, grants) })
}

// AsIs is ToPaddock for a node on which the kubelet decides: its memory may be overdrawn.
func AsIs(s *State, m *machine.Machine, p node.Policy, pods []request.Pod) (*node.State, error) {
	return s.restore(pods, func(grants []*node.Grant) (*node.State, error) { return node.RestoreKubelet(m, p, grants) })
}

func (s *State) restore(pods []request.Pod, restore func([]*node.Grant) (*node.State, error)) (*node.State, error) {
	known := map[string]bool{}
	var grants []*node.Grant
	for i, pod := range pods {
		known[pod.UID] = true
		g, err := s.grant(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.ID(), err)
		}
		if g != nil {
			g.Sequence = uint64(i + 1)
			grants = append(grants, g)
		}
	}
	var strangers []string
	for _, uid := range s.Pods() {
		if !known[uid] {
			strangers = append(strangers, uid)
		}
	}
	if len(strangers) > 0 {
		return nil, fmt.Errorf(`pods %s have assignments and are not among those named with --pods: name them too, or, if they are gone, run "paddock state repair" first`,
			strings.Join(strangers, ", "))
	}
	state, err := restore(grants)
	if err != nil {
		return nil, err
	}
	return state.Resume(uint64(len(pods))), nil
}

// grant returns the grant of a pod, or nil if the pod has nothing.
func (s *State) grant(pod request.Pod) (*node.Grant, error) {
	g := &node.Grant{Pod: pod, Containers: make([]node.ContainerGrant, len(pod.Containers))}
	assigned := false
	if s.CPU != nil {
		g.Pool = s.CPU.Pools[pod.UID]
		for name, list := range s.CPU.Entries[pod.UID] {
			_, i := pod.Container(name)
			set, err := cpuset.Parse(list)
			if i < 0 || err != nil {
				return nil, fmt.Errorf("the CPU file has %q for container %s, which the pod does not have, or which is not a list", list, name)
			}
			g.Containers[i].CPUs, assigned = set, true
		}
	}
	if s.Memory != nil {
		var err error
		if pool := s.Memory.Pools[pod.UID]; len(pool) > 0 {
			if g.PoolMemory, _, err = fromBlocks(pool); err != nil {
				return nil, err
			}
		}
		for name, list := range s.Memory.Entries[pod.UID] {
			_, i := pod.Container(name)
			if i < 0 {
				return nil, fmt.Errorf("the memory file has blocks of container %s, which the pod does not have", name)
			}
			c := &g.Containers[i]
			if c.Memory, c.MemoryNodes, err = fromBlocks(list); err != nil {
				return nil, err
			}
			assigned = true
		}
	}
	if pod.Kind == request.PodLevel && !g.HasPool() {
		g.Pool, g.PoolMemory = poolOf(g)
	}
	owns := assigned || g.HasPool()
	given := func(c request.Container) bool { return len(c.Given) > 0 }
	if !owns && len(s.Devices[pod.UID]) == 0 && !slices.ContainsFunc(pod.Containers, given) {
		return nil, nil
	}
	for i, c := range pod.Containers {
		has := &g.Containers[i]
		has.Removed = owns && (c.Exclusive() || !g.Pool.IsEmpty()) && has.CPUs.IsEmpty() && len(has.Memory) == 0 && s.CPU != nil && s.CPU.Policy == "static"
		if !has.Removed {
			has.Devices = s.Devices[pod.UID][c.Name]
		}
	}
	return g, nil
}

// poolOf returns the pool of a pod whose sharing containers have entries, which are the rest of the
// pool. A kubelet without pools, or one that does not find the pools in the file of a newer
// kubelet, has only these entries. poolOf returns an empty pool if no container shares one.
func poolOf(g *node.Grant) (cpuset.Set, []memory.Block) {
	var cpus cpuset.Set
	var blocks []memory.Block
	shares, remains := false, false
	for i, has := range g.Containers {
		c := &g.Pod.Containers[i]
		cpus = cpus.Union(has.CPUs)
		shared := !c.Equivalent || len(c.Memory) == 0
		shares = shares || c.CPUs == 0 && !has.CPUs.IsEmpty() || shared && len(has.Memory) > 0
		if shared && (remains || len(has.Memory) == 0) {
			continue // Each container that shares shows the whole rest.
		}
		remains = remains || shared
		for _, b := range has.Memory {
			at := slices.IndexFunc(blocks, func(p memory.Block) bool { return p.Type == b.Type && p.Nodes == b.Nodes })
			if at < 0 {
				blocks = append(blocks, b)
			} else {
				blocks[at].Size += b.Size
			}
		}
	}
	if !shares {
		return cpuset.Set{}, nil
	}
	slices.SortStableFunc(blocks, func(a, b memory.Block) int { return cmp.Compare(a.Type, b.Type) })
	return cpus, blocks
}

func fromBlocks(list []kubeletstate.Block) ([]memory.Block, mask.Mask, error) {
	out := make([]memory.Block, 0, len(list))
	var nodes mask.Mask
	for _, b := range list {
		var on mask.Mask
		for _, id := range b.Nodes {
			if id < 0 || id > mask.MaxNode {
				return nil, 0, fmt.Errorf("the memory file has NUMA node %d", id)
			}
			on = on.With(id)
		}
		if b.Size > math.MaxInt64 {
			return nil, 0, fmt.Errorf("the memory file has a block of %d bytes", b.Size)
		}
		nodes |= on
		out = append(out, memory.Block{Type: b.Type, Size: int64(b.Size), Nodes: on})
	}
	slices.SortStableFunc(out, func(a, b memory.Block) int { return cmp.Compare(a.Type, b.Type) })
	return out, nodes, nil
}
