package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Grant is what one pod is assigned. It is immutable: a removal creates a new grant.
type Grant struct {
	Pod request.Pod
	// Sequence orders grants by admission.
	Sequence uint64
	// Resized is the revision of the state of the last resize or move. Zero means that there was
	// none.
	Resized uint64
	// Pool has the CPUs of a pod-level pod under scope pod. It is empty for other pods, and for a
	// pod whose budget has no whole CPUs. PoolMemory is the pool's memory.
	Pool       cpuset.Set
	PoolMemory []memory.Block
	// PoolBaseline is the pool's equivalent of ContainerGrant.Baseline.
	PoolBaseline cpuset.Set
	// PoolCache is the class of the containers that share the pool.
	PoolCache cache.Class
	// Containers is parallel to Pod.Containers.
	Containers []ContainerGrant
	// Moving is the place to which the pod is being moved. It is nil if the pod is not being moved.
	// The pod has both places until the move ends. Pod, Sequence and Resized of the new place equal
	// those of this grant (docs/rules/moves.md).
	Moving *Grant
}

// ContainerGrant is what one container is assigned.
type ContainerGrant struct {
	// CPUs are the container's own CPUs, or its part of the pod's pool, alone or shared. If empty,
	// the container runs on the node shared pool. CPUs of a standard init container may overlap
	// those of later containers of its pod.
	CPUs cpuset.Set
	// Baseline has the CPUs that the container was admitted with and that no resize takes away, if
	// the container has more than these. If empty, they are CPUs (R-RSZ-6).
	Baseline cpuset.Set
	// Memory has the container's blocks, ascending by type. If empty, the container is not pinned.
	// An empty list that is not nil is the entry that a kubelet keeps of a container without memory
	// of its own (Behavior.PinsNothing). Each of the containers that share the rest of a pool shows
	// the whole rest (R-MEM-54). Blocks of a standard init container end when a later container is
	// created (R-MEM-63).
	Memory []memory.Block
	// Devices has the container's devices, ascending by resource. A standard init container may
	// share devices with later containers of its pod.
	Devices []device.Assigned
	// MemoryNodes is the container's cpuset.mems. It remains when the blocks have ended, so that an
	// init container that runs again uses the same NUMA nodes. If empty, the container is not
	// pinned.
	MemoryNodes mask.Mask
	// Cache is the container's own class of the caches. Containers without one are in the default
	// class or, if they share a pool that has a class, in that one.
	Cache cache.Class
	// Affinity is the choice of the Topology Manager.
	Affinity hint.Choice
	// Removed is set if the container was removed. It has nothing any more.
	Removed bool
}

// HasPool reports whether the pod has a pool of CPUs or memory.
func (g *Grant) HasPool() bool { return !g.Pool.IsEmpty() || len(g.PoolMemory) > 0 }

// OwnsAnything reports whether the pod has its own CPUs, memory or devices. Nothing depends on the
// grants of other pods: they are neither handed over nor published.
func (g *Grant) OwnsAnything() bool {
	if !g.CPUs().IsEmpty() || g.HasPool() {
		return true
	}
	for i := range g.Containers {
		if c := &g.Containers[i]; len(c.Memory) > 0 || !c.MemoryNodes.IsEmpty() || len(c.Devices) > 0 {
			return true
		}
	}
	return false
}

// BaselineOf returns the CPUs that container i was admitted with. It is empty for a container
// without its own CPUs.
func (g *Grant) BaselineOf(i int) cpuset.Set {
	c := &g.Containers[i]
	if c.Baseline.IsEmpty() && g.Isolation(i) == ContainerIsolation {
		return c.CPUs
	}
	return c.Baseline
}

// BaselineOfPool returns the CPUs that the pool was admitted with.
func (g *Grant) BaselineOfPool() cpuset.Set {
	if g.PoolBaseline.IsEmpty() {
		return g.Pool
	}
	return g.PoolBaseline
}

// above returns the baseline as a grant records it: empty if it equals the assigned CPUs.
func above(baseline, cpus cpuset.Set) cpuset.Set {
	if baseline.Equal(cpus) {
		return cpuset.Set{}
	}
	return baseline
}

// CPUs returns all CPUs that the pod keeps from the node shared pool. While the pod is being moved,
// they are the CPUs of both places.
func (g *Grant) CPUs() cpuset.Set {
	if g.Moving != nil {
		return g.cpus().Union(g.Moving.cpus())
	}
	return g.cpus()
}

func (g *Grant) cpus() cpuset.Set {
	if !g.Pool.IsEmpty() {
		return g.Pool
	}
	var b cpuset.Builder
	for i := range g.Containers {
		b.AddSet(g.Containers[i].CPUs)
	}
	return b.Set()
}

// Charged returns the blocks that the pod is charged for: those of the pool or of the containers,
// and, during a move, those that only the new place has.
func (g *Grant) Charged() []memory.Block {
	if g.Moving != nil {
		return append(slices.Clone(g.charged()), g.beyond()...)
	}
	return g.charged()
}

// MemoryNodes returns the NUMA nodes of the memory that the pod is charged for.
func (g *Grant) MemoryNodes() mask.Mask { return nodesOf(g.Charged()) }

func (g *Grant) charged() []memory.Block {
	if len(g.PoolMemory) > 0 {
		return g.PoolMemory
	}
	var blocks []memory.Block
	for i := range g.Containers {
		blocks = append(blocks, g.Containers[i].Memory...)
	}
	return blocks
}

// Isolation describes with whom a container shares its CPUs (R-CPU-120).
type Isolation int

// The levels: the CPUs are shared with the Kubernetes node, with the pod, or not at all.
const (
	HostIsolation      Isolation = iota // host
	PodIsolation                        // pod
	ContainerIsolation                  // container
)

// Isolation returns the level of container i.
func (g *Grant) Isolation(i int) Isolation {
	switch {
	case g.Containers[i].CPUs.IsEmpty():
		return HostIsolation
	case g.Pod.Kind == request.PodLevel && g.Pod.Containers[i].CPUs <= 0:
		return PodIsolation
	}
	return ContainerIsolation
}
