package node

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Grant is what one pod holds. It is immutable: a removal makes a new one.
type Grant struct {
	Pod request.Pod
	// Sequence orders grants by admission.
	Sequence uint64
	// Pool are the CPUs of a pod-level pod under scope pod, empty for others and for a pod
	// whose budget has no whole CPUs. PoolMemory is its memory.
	Pool       cpuset.Set
	PoolMemory []memory.Block
	// Containers are parallel to Pod.Containers.
	Containers []ContainerGrant
}

// ContainerGrant is what one container holds.
type ContainerGrant struct {
	// CPUs are its own, or its part of the pod's pool, alone or shared; empty: it runs on the
	// node's shared pool. Standard init containers may overlap later ones of their pod.
	CPUs cpuset.Set
	// Memory are its blocks, ascending by type; nil: not pinned. The blocks of containers that
	// share a pool's rest show the whole rest each (R-MEM-54). Blocks of a standard init container
	// end when a later container is created (R-MEM-63).
	Memory []memory.Block
	// Devices are its devices, ascending by resource. Standard init containers may share them with
	// later ones of their pod.
	Devices []device.Held
	// MemoryNodes is the cpuset.mems of the container, also when its blocks have ended, so that
	// an init container that runs again runs where it did. Empty: not pinned.
	MemoryNodes mask.Mask
	// Affinity is what the Topology Manager chose.
	Affinity hint.Choice
	// Removed containers hold nothing any more.
	Removed bool
}

// HasPool tells whether the pod holds CPUs or memory as a pod.
func (g *Grant) HasPool() bool { return !g.Pool.IsEmpty() || len(g.PoolMemory) > 0 }

// CPUs are all CPUs that the pod keeps from the node's shared pool.
func (g *Grant) CPUs() cpuset.Set {
	if !g.Pool.IsEmpty() {
		return g.Pool
	}
	var b cpuset.Builder
	for i := range g.Containers {
		b.AddSet(g.Containers[i].CPUs)
	}
	return b.Set()
}

// Charged are the blocks that the pod is charged for: the pool's, or its containers'.
func (g *Grant) Charged() []memory.Block {
	if len(g.PoolMemory) > 0 {
		return g.PoolMemory
	}
	var blocks []memory.Block
	for i := range g.Containers {
		blocks = append(blocks, g.Containers[i].Memory...)
	}
	return blocks
}

// Isolation is how far a container's CPUs are its own (R-CPU-120).
type Isolation int

// The levels: CPUs shared with the node, with the pod, with nobody.
const (
	HostIsolation      Isolation = iota // host
	PodIsolation                        // pod
	ContainerIsolation                  // container
)

// Isolation returns the level of container i.
func (g *Grant) Isolation(i int) Isolation {
	c := g.Pod.Containers[i]
	switch {
	case g.Containers[i].CPUs.IsEmpty():
		return HostIsolation
	case g.Pod.Kind == request.PodLevel && !c.Exclusive():
		return PodIsolation
	}
	return ContainerIsolation
}
