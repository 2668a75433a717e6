package podres

import (
	"maps"
	"slices"
	"strings"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// list is the answer to v1 List (R-API-10…14).
func list(s *node.State) *podresourcesv1.ListPodResourcesResponse {
	grants := ordered(s)
	response := &podresourcesv1.ListPodResourcesResponse{PodResources: make([]*podresourcesv1.PodResources, len(grants))}
	inventory := s.Devices().Inventory()
	for i, g := range grants {
		response.PodResources[i] = podResources(g, inventory)
	}
	return response
}

// ordered are the grants, ascending by namespace and name. Two pods have one name while a static
// pod is made anew; the later one is first, being the one that Get answers with.
func ordered(s *node.State) []*node.Grant {
	grants := slices.Clone(s.Grants())
	slices.SortFunc(grants, func(a, b *node.Grant) int {
		if c := strings.Compare(a.Pod.Namespace, b.Pod.Namespace); c != 0 {
			return c
		}
		if c := strings.Compare(a.Pod.Name, b.Pod.Name); c != 0 {
			return c
		}
		if later(a, b) {
			return -1
		}
		return 1
	})
	return grants
}

// later tells whether a was admitted after b; UIDs make the order total.
func later(a, b *node.Grant) bool {
	if a.Sequence != b.Sequence {
		return a.Sequence > b.Sequence
	}
	return a.Pod.UID > b.Pod.UID
}

// find returns the grant of the pod with that name, the later one of two.
func find(s *node.State, namespace, name string) (*node.Grant, bool) {
	var found *node.Grant
	for _, g := range s.Grants() {
		if g.Pod.Name == name && g.Pod.Namespace == namespace && (found == nil || later(g, found)) {
			found = g
		}
	}
	return found, found != nil
}

// podResources is one pod's part of List, and what Get returns of it. The inventory knows where
// devices are.
func podResources(g *node.Grant, inventory *device.Inventory) *podresourcesv1.PodResources {
	p := &podresourcesv1.PodResources{
		Name:      g.Pod.Name,
		Namespace: g.Pod.Namespace,
		CpuIds:    ids(g.Pool),
		Memory:    blocks(g.PoolMemory),
	}
	for i, c := range g.Pod.Containers {
		if c.Lane == request.Init || g.Pod.Estimated { // The containers of an estimate have no names.
			continue
		}
		p.Containers = append(p.Containers, &podresourcesv1.ContainerResources{
			Name:    c.Name,
			Devices: devices(g.Containers[i].Devices, inventory),
			CpuIds:  ids(ownCPUs(g, i)),
			Memory:  blocks(ownMemory(g, i)),
		})
	}
	return p
}

// ownCPUs are the CPUs on which nobody but container i runs.
func ownCPUs(g *node.Grant, i int) cpuset.Set {
	if g.Isolation(i) != node.ContainerIsolation {
		return cpuset.Set{}
	}
	return g.Containers[i].CPUs
}

// ownMemory is the memory that is accounted to container i alone. What a container has without
// having asked is the rest of its pod's pool, which R-MEM-54 shows to each that shares it.
func ownMemory(g *node.Grant, i int) []memory.Block {
	if len(g.Pod.Containers[i].Memory) == 0 {
		return nil
	}
	return g.Containers[i].Memory
}

// allocatable is the answer to v1 GetAllocatableResources: what could be exclusive on a node
// without pods, not what is free (R-API-30, R-API-31, R-MEM-13).
func allocatable(s *node.State) *podresourcesv1.AllocatableResourcesResponse {
	response := &podresourcesv1.AllocatableResourcesResponse{
		CpuIds:  ids(s.AllocatableCPUs()),
		Devices: allDevices(s.Devices().Inventory()),
	}
	if !s.Policy().StaticMemory {
		return response
	}
	capacity := s.Memory().Capacity()
	for _, n := range capacity.Nodes() {
		for t, name := range capacity.Types() {
			if size := n.Types[t].Allocatable; size > 0 {
				block := memory.Block{Type: name, Size: size, Nodes: mask.Of(n.ID)}
				response.Memory = append(response.Memory, blocks([]memory.Block{block})...)
			}
		}
	}
	return response
}

// listAlpha is the answer to v1alpha1 List: app containers only, devices only (R-API-40).
func listAlpha(s *node.State) *v1alpha1.ListPodResourcesResponse {
	response := &v1alpha1.ListPodResourcesResponse{}
	for _, g := range ordered(s) {
		p := &v1alpha1.PodResources{Name: g.Pod.Name, Namespace: g.Pod.Namespace}
		for i, c := range g.Pod.Containers {
			if c.Lane != request.App || g.Pod.Estimated {
				continue
			}
			container := &v1alpha1.ContainerResources{Name: c.Name}
			for _, h := range g.Containers[i].Devices {
				container.Devices = append(container.Devices, &v1alpha1.ContainerDevices{ResourceName: h.Resource, DeviceIds: h.IDs})
			}
			p.Containers = append(p.Containers, container)
		}
		response.PodResources = append(response.PodResources, p)
	}
	return response
}

// ids are the CPUs of a set, ascending; nil for the empty one.
func ids(set cpuset.Set) []int64 {
	if set.IsEmpty() {
		return nil
	}
	list := make([]int64, 0, set.Len())
	for id := range set.All() {
		list = append(list, int64(id))
	}
	return list
}

// blocks has one element for each block, with all NUMA nodes of its mask (R-API-13).
func blocks(held []memory.Block) []*podresourcesv1.ContainerMemory {
	if len(held) == 0 {
		return nil
	}
	list := make([]*podresourcesv1.ContainerMemory, len(held))
	for i, b := range held {
		list[i] = &podresourcesv1.ContainerMemory{MemoryType: b.Type, Size: uint64(b.Size), Topology: topology(b.Nodes)}
	}
	return list
}

// devices has, for each resource, one element for each set of NUMA nodes that devices are local
// to, ascending, and before them one without topology for those that are local nowhere or not in
// the inventory any more (R-API-14). So every device is named once.
func devices(held []device.Held, inventory *device.Inventory) []*podresourcesv1.ContainerDevices {
	var list []*podresourcesv1.ContainerDevices
	for _, h := range held {
		byNodes := map[mask.Mask][]string{}
		for _, id := range h.IDs {
			d, _ := inventory.Device(h.Resource, id)
			byNodes[d.Nodes] = append(byNodes[d.Nodes], id)
		}
		for _, nodes := range slices.Sorted(maps.Keys(byNodes)) {
			element := &podresourcesv1.ContainerDevices{ResourceName: h.Resource, DeviceIds: byNodes[nodes]}
			if !nodes.IsEmpty() {
				element.Topology = topology(nodes)
			}
			list = append(list, element)
		}
	}
	return list
}

// allDevices are the devices that are known, healthy or not (R-API-30).
func allDevices(inventory *device.Inventory) []*podresourcesv1.ContainerDevices {
	var all []device.Held
	for _, resource := range inventory.Resources() {
		h := device.Held{Resource: resource}
		for _, d := range inventory.Devices(resource) {
			h.IDs = append(h.IDs, d.ID)
		}
		all = append(all, h)
	}
	return devices(all, inventory)
}

func topology(nodes mask.Mask) *podresourcesv1.TopologyInfo {
	info := &podresourcesv1.TopologyInfo{Nodes: make([]*podresourcesv1.NUMANode, 0, nodes.Len())}
	for n := range nodes.All() {
		info.Nodes = append(info.Nodes, &podresourcesv1.NUMANode{ID: int64(n)})
	}
	return info
}
