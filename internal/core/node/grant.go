package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Grant is what one pod is assigned. It is immutable: a removal makes a new one.
type Grant struct {
	Pod request.Pod
	// Sequence orders grants by admission.
	Sequence uint64
	// Resized is the revision of the last resize or move, 0 before the first one.
	Resized uint64
	// Pool are the CPUs of a pod-level pod under scope pod, empty for others and for a pod
	// whose budget has no whole CPUs. PoolMemory is its memory.
	Pool       cpuset.Set
	PoolMemory []memory.Block
	// PoolBaseline is ContainerGrant.Baseline of the pool.
	PoolBaseline cpuset.Set
	// Containers are parallel to Pod.Containers.
	Containers []ContainerGrant
	// Moving is the place to which the pod is being moved; nil: it is not. The pod has both places
	// until the move ends. Its Pod, Sequence and Resized are those of this grant
	// (docs/rules/moves.md).
	Moving *Grant
}

// ContainerGrant is what one container is assigned.
type ContainerGrant struct {
	// CPUs are its own, or its part of the pod's pool, alone or shared; empty: it runs on the
	// node shared pool. Standard init containers may overlap later ones of their pod.
	CPUs cpuset.Set
	// Baseline are the CPUs that it was admitted with and that no resize takes away, if it has
	// more; empty: they are CPUs (R-RSZ-6).
	Baseline cpuset.Set
	// Memory are its blocks, ascending by type; nil: not pinned. The blocks of containers that
	// share a pool's rest show the whole rest each (R-MEM-54). Blocks of a standard init container
	// end when a later container is created (R-MEM-63).
	Memory []memory.Block
	// Devices are its devices, ascending by resource. Standard init containers may share them with
	// later ones of their pod.
	Devices []device.Assigned
	// MemoryNodes is the cpuset.mems of the container, also when its blocks have ended, so that
	// an init container that runs again runs where it did. Empty: not pinned.
	MemoryNodes mask.Mask
	// Affinity is what the Topology Manager chose.
	Affinity hint.Choice
	// Removed containers have nothing any more.
	Removed bool
}

// HasPool reports whether the pod has a pool of CPUs or memory.
func (g *Grant) HasPool() bool { return !g.Pool.IsEmpty() || len(g.PoolMemory) > 0 }

// OwnsAnything reports whether the pod has CPUs, memory or devices of its own. Nothing depends on
// the grants of others: they are neither handed over nor published.
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

// BaselineOf are the CPUs that container i was admitted with; empty for a container without CPUs of
// its own.
func (g *Grant) BaselineOf(i int) cpuset.Set {
	c := &g.Containers[i]
	if c.Baseline.IsEmpty() && g.Isolation(i) == ContainerIsolation {
		return c.CPUs
	}
	return c.Baseline
}

// BaselineOfPool are the CPUs that the pool was admitted with.
func (g *Grant) BaselineOfPool() cpuset.Set {
	if g.PoolBaseline.IsEmpty() {
		return g.Pool
	}
	return g.PoolBaseline
}

// above is the baseline as a grant has it: empty if it is all that is assigned.
func above(baseline, cpus cpuset.Set) cpuset.Set {
	if baseline.Equal(cpus) {
		return cpuset.Set{}
	}
	return baseline
}

// CPUs are all CPUs that the pod keeps from the node shared pool, in both places while it is being
// moved.
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

// Charged are the blocks that the pod is charged for: the pool's, or its containers', and those
// that only the place has to which it is being moved.
func (g *Grant) Charged() []memory.Block {
	if g.Moving != nil {
		return append(slices.Clone(g.charged()), g.beyond()...)
	}
	return g.charged()
}

// MemoryNodes are the NUMA nodes of the memory that the pod is charged for.
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

// Isolation is how far a container's CPUs are its own (R-CPU-120).
type Isolation int

// The levels: CPUs shared with the Kubernetes node, with the pod, or not at all.
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
