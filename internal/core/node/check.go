package node

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrInvariant is wrapped by every error of Check and by the errors of Apply and Restore for a
// grant that is not valid.
var ErrInvariant = errors.New("assignments contradict each other")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvariant, fmt.Errorf(format, args...))
}

// Check proves the invariants of the whole state:
//
//   - every CPU, online or not, is assigned to at most one pod; an online CPU without a pod is in
//     the node shared pool or reserved;
//   - the CPUs of containers are within their pool;
//   - slices of containers that run at the same time are disjoint, and so are their devices;
//   - a pod's assignments are possible for its request (checkShape);
//   - the memory accounting is the sum of the grants, and the assigned devices and the classes of
//     the caches are those of the grants;
//   - what is reserved is free, and is reserved for one pod only (checkReserved);
//   - there is no residue.
//
// For a state with a Behavior, Check proves that grants, residue and what is free make up the
// machine. Every CPU is in exactly one of them, except for CPUs that the residue lists as assigned
// twice. The bytes of every set of NUMA nodes are those of the grants and of the residue.
func (s *State) Check() error {
	if err := s.checkResidue(); err != nil || s.policy.Behavior != (Behavior{}) {
		return err
	}
	fresh, err := New(s.machine, s.policy)
	if err != nil {
		return err
	}
	if fresh, err = fresh.WithDevices(s.devices.Inventory()); err != nil {
		return err
	}
	free := s.machine.AllCPUs().Union(assigned(s.grants.all())) // including CPUs that are offline
	var last *Grant
	for g := range s.grants.all() {
		if last != nil && last.Pod.UID >= g.Pod.UID {
			return broken("grants are not in order at pod %s", g.Pod.ID())
		}
		last = g
		if latest := max(g.Sequence, g.Resized); latest > s.generation {
			return broken("pod %s was admitted in revision %d of a state of revision %d", g.Pod.ID(), latest, s.generation)
		}
		if err := fresh.checkGrant(g, free); err != nil {
			return fmt.Errorf("pod %s: %w", g.Pod.ID(), err)
		}
		free = free.Difference(g.CPUs())
		fresh.usage = fresh.usage.Charge(g.Charged(), nil)
		if fresh.devices, err = takeDevices(fresh.devices, g.Devices()); err != nil {
			return fmt.Errorf("pod %s: %w", g.Pod.ID(), err)
		}
		if fresh.caches, err = takeClasses(fresh.caches, g); err != nil {
			return fmt.Errorf("pod %s: %w", g.Pod.ID(), broken("%w", err))
		}
	}
	if left := free.Intersection(s.sharable()); !left.Equal(s.unassigned) {
		return broken("the node shared pool is %q, the grants leave %q", s.unassigned, left)
	}
	if !fresh.usage.Equal(s.usage) {
		return broken("the memory accounting is not the sum of the grants")
	}
	if !fresh.devices.Equal(s.devices) {
		return broken("the assigned devices are not those of the grants")
	}
	if !fresh.caches.Equal(s.caches) {
		return broken("the classes of the caches are not those of the grants")
	}
	return s.checkReserved()
}

// checkGrant proves that g is valid if the CPUs of free are free.
func (s *State) checkGrant(g *Grant, free cpuset.Set) error {
	if len(g.Containers) != len(g.Pod.Containers) {
		return broken("%d containers are granted, the pod has %d", len(g.Containers), len(g.Pod.Containers))
	}
	if latest := max(g.Sequence, g.Resized); latest > MaxGeneration {
		return broken("it was admitted in revision %d, and the last one is %d", latest, uint64(MaxGeneration))
	}
	if missing := g.CPUs().Difference(free); !missing.IsEmpty() {
		return s.brokenCPUs(missing)
	}
	for i, c := range g.Containers {
		name := g.Pod.Containers[i].Name
		if !g.Pool.IsEmpty() && !g.Pool.Contains(c.CPUs) {
			return broken("container %s has CPUs %s outside its pod's pool %s", name, c.CPUs.Difference(g.Pool), g.Pool)
		}
		if err := s.checkBlocks(name, c.Memory); err != nil {
			return err
		}
	}
	if err := s.checkBlocks("pool", g.PoolMemory); err != nil {
		return err
	}
	if err := checkDevices(g); err != nil {
		return err
	}
	if err := checkShape(g); err != nil {
		return err
	}
	if err := checkClasses(g); err != nil {
		return err
	}
	if err := checkSlices(g); err != nil || g.Moving == nil {
		return err
	}
	place := *g.Moving
	if place.Moving != nil || len(place.Containers) != len(g.Containers) {
		return broken("it is being moved to a place with %d containers, and has %d, or to two places", len(place.Containers), len(g.Containers))
	}
	place.Pod = g.Pod
	if err := s.checkGrant(&place, free); err != nil {
		return fmt.Errorf("the destination of its move: %w", err)
	}
	return nil
}

// brokenCPUs returns an error that explains why a pod cannot have the CPUs.
func (s *State) brokenCPUs(cpus cpuset.Set) error {
	absent, reserved := cpus.Difference(s.machine.AllCPUs()), cpus.Intersection(s.policy.ReservedCPUs)
	switch others := assigned(s.grants.all()); {
	case cpus.Intersects(others):
		return broken("it has CPUs %s, which another pod has", cpus.Intersection(others))
	case !absent.IsEmpty():
		return broken("it has CPUs %s, which this machine does not have", absent)
	case !s.policy.StaticCPU:
		return broken("it has CPUs %s, and the CPU policy is none", cpus)
	case !reserved.IsEmpty():
		return broken("it has CPUs %s, which are reserved", reserved)
	}
	return broken("it has CPUs %s, of which %s are not free", cpus, cpus.Difference(s.FreeCPUs()))
}

func (s *State) checkBlocks(holder string, blocks []memory.Block) error {
	for _, b := range blocks {
		if over := s.usage.Overdrawn(b.Nodes, b.Type); over > maxBytes {
			return broken("%s has %s on %s, where pods have %s more than there is", holder, request.Words(b.Type, b.Size), b.Nodes.Text(), request.Words(b.Type, over))
		}
		if b.Size < 0 || b.Nodes.IsEmpty() || !s.machine.NodeMask().Contains(b.Nodes) || s.machine.MemoryType(b.Type) < 0 {
			return broken("%s has %d bytes of %s on NUMA nodes %s, the machine has %v on %s",
				holder, b.Size, b.Type, b.Nodes, s.machine.MemoryTypes(), s.machine.NodeMask())
		}
	}
	return nil
}

// checkSlices proves that no other container of the pod runs on an exclusive container's CPUs at
// the same time. A standard init container may share CPUs with any container that starts later, and
// an exclusive init container may have CPUs of a sidecar that shares (R-CPU-92, R-CPU-96).
func checkSlices(g *Grant) error {
	var exclusive, shared cpuset.Builder // CPUs of the sidecars and apps so far
	for i := range g.Containers {
		c, cpus := &g.Pod.Containers[i], g.Containers[i].CPUs
		if exclusive.Intersects(cpus) || c.Type != request.Init && c.Exclusive() && shared.Intersects(cpus) {
			for k := range i {
				a, cpus := &g.Pod.Containers[k], cpus.Intersection(g.Containers[k].CPUs)
				if a.Type != request.Init && (a.Exclusive() || c.Type != request.Init && c.Exclusive()) && !cpus.IsEmpty() {
					return broken("containers %s and %s both have CPUs %s", a.Name, c.Name, cpus)
				}
			}
		}
		switch {
		case c.Type == request.Init:
		case c.Exclusive():
			exclusive.AddSet(cpus)
		default:
			shared.AddSet(cpus)
		}
	}
	return nil
}

// checkDevices proves that no two containers of the pod that may run at the same time have the same
// device. A later container may only have devices that a standard init container had (R-HINT-42).
func checkDevices(g *Grant) error {
	type name struct{ resource, id string }
	holders := map[name]string{}
	for i, c := range g.Containers {
		for _, h := range c.Devices {
			for _, id := range h.IDs {
				container := g.Pod.Containers[i]
				if other, taken := holders[name{h.Resource, id}]; taken {
					return broken("containers %s and %s both have device %q of %s", other, container.Name, id, h.Resource)
				}
				if container.Type != request.Init {
					holders[name{h.Resource, id}] = container.Name
				}
			}
		}
	}
	return nil
}
