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

// ordered returns the grants in ascending order of namespace and name. While a static pod is being
// replaced, two pods have the same name. The later one, which Get returns, comes first.
func ordered(s *node.State) []*node.Grant {
	grants := s.Grants()
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

// later reports whether a was admitted after b. UIDs make the order total.
func later(a, b *node.Grant) bool {
	if a.Sequence != b.Sequence {
		return a.Sequence > b.Sequence
	}
	return a.Pod.UID > b.Pod.UID
}

// find returns the grant of the pod with that name. If two pods have it, find returns the later
// one.
func find(s *node.State, namespace, name string) (*node.Grant, bool) {
	var found *node.Grant
	for _, g := range s.Grants() {
		if g.Pod.Name == name && g.Pod.Namespace == namespace && (found == nil || later(g, found)) {
			found = g
		}
	}
	return found, found != nil
}

// podResources returns one pod's part of List, which is also the answer to Get. For a container it
// shows the CPUs on which no other container runs, and the memory that is accounted to this
// container alone. Memory that the container did not request is the rest of its pod's pool, which
// R-MEM-54 shows to each container that shares it.
func podResources(s *node.State, g *node.Grant) *podresourcesv1.PodResources {
	inventory := s.Devices().Inventory()
	p := &podresourcesv1.PodResources{
		Name:      g.Pod.Name,
		Namespace: g.Pod.Namespace,
		CpuIds:    ids(g.Pool),
		Memory:    blocks(g.PoolMemory),
	}
	for i, c := range g.Pod.Containers {
		if c.Type == request.Init || g.Pod.Estimated { // The containers of an estimated pod have no names.
			continue
		}
		container := &podresourcesv1.ContainerResources{
			Name: c.Name, Devices: append(devices(g.Containers[i].Devices, inventory), givenDevices(c.Given)...), DynamicResources: dynamicResources(&g.Pod, c.Name),
		}
		if g.Isolation(i) == node.ContainerIsolation {
			container.CpuIds = ids(g.Containers[i].CPUs)
		}
		if len(c.Memory) > 0 {
			container.Memory = blocks(g.Containers[i].Memory)
		}
		p.Containers = append(p.Containers, container)
	}
	return p
}

// allocatable returns the answer to v1 GetAllocatableResources: the resources that could be
// exclusive on a node without pods, not those that are free (R-API-30, R-API-31, R-MEM-13).
func allocatable(s *node.State) *podresourcesv1.AllocatableResourcesResponse {
	inventory := s.Devices().Inventory()
	var known []device.Assigned // healthy or not (R-API-30)
	for _, resource := range inventory.Resources() {
		h := device.Assigned{Resource: resource}
		for _, d := range inventory.Devices(resource) {
			h.IDs = append(h.IDs, d.ID)
		}
		known = append(known, h)
	}
	response := &podresourcesv1.AllocatableResourcesResponse{CpuIds: ids(s.AllocatableCPUs()), Devices: devices(known, inventory)}
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

// listAlpha returns the answer to v1alpha1 List: app containers only, devices only (R-API-40).
func listAlpha(s *node.State) *v1alpha1.ListPodResourcesResponse {
	response := &v1alpha1.ListPodResourcesResponse{}
	for _, g := range ordered(s) {
		p := &v1alpha1.PodResources{Name: g.Pod.Name, Namespace: g.Pod.Namespace}
		for i, c := range g.Pod.Containers {
			if c.Type != request.App || g.Pod.Estimated {
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

// ids returns the CPUs of a set in ascending order. It returns nil for the empty set.
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

// blocks returns one element for each block, with all NUMA nodes of its mask (R-API-13).
func blocks(assigned []memory.Block) []*podresourcesv1.ContainerMemory {
	if len(assigned) == 0 {
		return nil
	}
	list := make([]*podresourcesv1.ContainerMemory, len(assigned))
	for i, b := range assigned {
		list[i] = &podresourcesv1.ContainerMemory{MemoryType: b.Type, Size: uint64(b.Size), Topology: topology(b.Nodes)}
	}
	return list
}

// givenDevices returns the devices that the kubelet assigned from device plugins, in the form in
// which devices returns those that Paddock assigned.
func givenDevices(given []request.Given) []*podresourcesv1.ContainerDevices {
	var list []*podresourcesv1.ContainerDevices
	for _, nodes := range []bool{false, true} { // Those without NUMA nodes come first.
		for _, d := range given {
			if d.Resource == "" || d.Nodes.IsEmpty() == nodes {
				continue
			}
			element := &podresourcesv1.ContainerDevices{ResourceName: d.Resource, DeviceIds: []string{d.Name}}
			if nodes {
				element.Topology = topology(d.Nodes)
			}
			list = append(list, element)
		}
	}
	return list
}

// devices returns, for each resource, one element for each set of NUMA nodes to which devices are
// near, in ascending order. They follow an element without topology, which has the devices without
// NUMA nodes and those that are no longer in the inventory (R-API-14). So every device occurs once.
func devices(assigned []device.Assigned, inventory *device.Inventory) []*podresourcesv1.ContainerDevices {
	var list []*podresourcesv1.ContainerDevices
	for _, h := range assigned {
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

func topology(nodes mask.Mask) *podresourcesv1.TopologyInfo {
	info := &podresourcesv1.TopologyInfo{Nodes: make([]*podresourcesv1.NUMANode, 0, nodes.Len())}
	for n := range nodes.All() {
		info.Nodes = append(info.Nodes, &podresourcesv1.NUMANode{ID: int64(n)})
	}
	return info
}
