package explain

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Aligned describes whether one resource of an admitted pod is where a program uses it fastest.
// CPUs are aligned if they are on as few NUMA nodes as the empty machine needs for so many. Memory
// is aligned if that is true of it, too, and it is where the CPUs are. A device is
// aligned if it is near the CPUs and the memory of its container, and none of these is on a NUMA
// node that none of the devices is near (R-DEV-7). docs/gpu-server.md explains it to users.
type Aligned struct {
	// Container is empty for a pod that is aligned as one.
	Container string `json:"container,omitempty"`
	// Of is "CPUs", "memory", or the resource or driver of a device and its name.
	Of string `json:"of"`
	// Answer is "yes", "no", or "unknown" for a device whose NUMA nodes are not known.
	Answer string `json:"answer"`
	// Where describes the NUMA nodes and, if the answer is no, what is wrong with them.
	Where string `json:"where"`
}

// The answers about one resource.
const (
	AlignedYes     = "yes"
	AlignedNo      = "no"
	AlignedUnknown = "unknown"
)

// AlignedOf returns an answer for each resource that an admitted pod has of its own: for the pod if
// it is aligned as one, and otherwise for each container. It returns nil for a pod that has
// nothing, which shares the node's CPUs and memory.
func AlignedOf(s *node.State, g *node.Grant) []Aligned {
	var all []Aligned
	for _, u := range units(s, g) {
		cpus := s.Machine().NodesOf(u.cpus)
		spread := false // the CPUs, to more NUMA nodes than they need
		if !cpus.IsEmpty() {
			a := onFewest(Aligned{Container: u.container, Of: "CPUs"}, cpus, fewestNodes(s, u.cpus.Len()))
			all, spread = append(all, a), a.Answer == AlignedNo
		}
		if u.memory.IsEmpty() {
			continue
		}
		a := onFewest(Aligned{Container: u.container, Of: "memory"}, u.memory, fewestFor(s, u.blocks))
		apart := !cpus.Contains(u.memory) || cpus != u.memory && !spread
		if !cpus.IsEmpty() && apart && a.Answer == AlignedYes {
			a.Answer, a.Where = AlignedNo, a.Where+", and the CPUs are on "+cpus.Text()
		}
		all = append(all, a)
	}
	for i := range g.Pod.Containers {
		c := &g.Pod.Containers[i]
		for _, d := range c.Devices {
			given := slices.ContainsFunc(c.Given, func(x request.Given) bool { return x.Resource == d.Resource })
			if !given && !s.Devices().Inventory().Has(d.Resource) {
				all = append(all, Aligned{Container: c.Name, Of: d.Resource, Answer: AlignedUnknown, Where: "no device inventory has it"})
			}
		}
	}
	for i, devices := range DevicesOf(s, g) {
		for _, d := range devices {
			c := &g.Containers[i]
			all = append(all, alignedDevice(d, g.Pod.Containers[i].Name, s.Machine().NodesOf(c.CPUs), c.MemoryNodes))
		}
	}
	return all
}

// alignedDevice returns the answer about a device of a container with CPUs and memory on some NUMA
// nodes.
func alignedDevice(d Device, container string, cpus, memory mask.Mask) Aligned {
	a := Aligned{Container: container, Of: d.Of() + " " + d.Device, Answer: AlignedYes, Where: "its NUMA nodes are not known"}
	at := mask.Of(d.NUMANodes...)
	if !at.IsEmpty() {
		a.Where = "on " + at.Text()
	}
	switch {
	case d.Distance == node.DistanceUnknown.String():
		if a.Answer = AlignedUnknown; !at.IsEmpty() {
			a.Where += ", and the container has no CPUs or memory of its own"
		}
	case !d.Remote():
	case !cpus.IsEmpty() && at&cpus == 0:
		a.Answer, a.Where = AlignedNo, a.Where+", and the CPUs are on "+cpus.Text()
	case !memory.IsEmpty() && at&memory == 0:
		a.Answer, a.Where = AlignedNo, a.Where+", and the memory is on "+memory.Text()
	default:
		a.Answer, a.Where = AlignedNo, a.Where+", and some CPUs or memory are on a NUMA node without a device"
	}
	return a
}

// onFewest fills in the answer for something that is on some NUMA nodes and needs at least fewest.
func onFewest(a Aligned, on mask.Mask, fewest int) Aligned {
	a.Answer, a.Where = AlignedYes, "on "+on.Text()
	if on.Len() > fewest {
		a.Answer = AlignedNo
		a.Where += fmt.Sprintf(", although %d would be enough", fewest)
	}
	return a
}

// unit is what is aligned as one: a pod, or one of its containers.
type unit struct {
	container string
	cpus      cpuset.Set
	memory    mask.Mask
	blocks    []memory.Block
}

func units(s *node.State, g *node.Grant) []unit {
	whole := g.HasPool() || s.Policy().Scope == node.PodScope
	if whole {
		u := unit{cpus: g.CPUs(), blocks: g.PoolMemory}
		for i := range g.Containers {
			u.memory |= g.Containers[i].MemoryNodes
			if len(g.PoolMemory) == 0 {
				u.blocks = append(slices.Clip(u.blocks), g.Containers[i].Memory...)
			}
		}
		return []unit{u}
	}
	all := make([]unit, 0, len(g.Containers))
	for i := range g.Containers {
		c := &g.Containers[i]
		if !c.Removed {
			all = append(all, unit{container: g.Pod.Containers[i].Name, cpus: c.CPUs, memory: c.MemoryNodes, blocks: c.Memory})
		}
	}
	return all
}

// fewestNodes returns the number of NUMA nodes that so many CPUs need if all that pods could have
// are free.
func fewestNodes(s *node.State, n int) int {
	var offers []int64
	for _, u := range s.Machine().CPUNodes() {
		offers = append(offers, int64(s.AllocatableCPUs().IntersectionLen(u.CPUs)))
	}
	return fewestOf(offers, int64(n))
}

// fewestFor returns the number of NUMA nodes that the memory of the blocks needs if all that pods
// could have is free.
func fewestFor(s *node.State, blocks []memory.Block) int {
	capacity, fewest := s.Memory().Capacity(), 1
	for t, name := range capacity.Types() {
		var amount int64
		for _, b := range blocks {
			if b.Type == name {
				amount += b.Size
			}
		}
		var offers []int64
		for _, n := range capacity.Nodes() {
			offers = append(offers, n.Types[t].Allocatable)
		}
		fewest = max(fewest, fewestOf(offers, amount))
	}
	return fewest
}

// fewestOf returns how many of the offers, the largest first, have an amount together.
func fewestOf(offers []int64, amount int64) int {
	slices.Sort(offers)
	for k := 1; k <= len(offers); k++ {
		if amount -= offers[len(offers)-k]; amount <= 0 {
			return k
		}
	}
	return max(1, len(offers))
}
