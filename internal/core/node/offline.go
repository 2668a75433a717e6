package node

import (
	"iter"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// OnMachine is the state after CPUs of the machine went offline or came online; m is the machine
// as it is now. Grants do not change; see Adopt. The same CPUs make no new state. The error names
// a pod that cannot stay, as when a whole NUMA node with its memory is gone; the old state is valid
// still.
func (s *State) OnMachine(m *machine.Machine) (*State, error) {
	if m == s.machine {
		return s, nil
	}
	n, findings, err := Adopt(m, s.policy, s.devices.Inventory(), s.Grants())
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if !f.Kept {
			return nil, broken("%s", f)
		}
	}
	return n.Resume(s.generation + 1).WithReservations(s.Reservations()), nil
}

// Offline are the CPUs that pods are assigned and that are not online: the machine does not have
// them now. No other pod gets them.
func (s *State) Offline() cpuset.Set {
	var b cpuset.Builder
	for g := range s.grants.all() {
		b.AddSet(s.OfflineOf(g))
	}
	return b.Set()
}

// OfflineOf are the CPUs of a grant that are not online.
func (s *State) OfflineOf(g *Grant) cpuset.Set { return g.CPUs().Difference(s.machine.AllCPUs()) }

// Degraded pods have less than they were assigned, because CPUs of theirs are offline.
type Degraded struct {
	Grant *Grant
	// Offline CPUs are assigned to the pod and are not online.
	Offline cpuset.Set
	// Displaced are the positions of containers that have no CPU of their own or their pod's left
	// and run elsewhere; see Cgroup.
	Displaced []int
}

// Degraded are the pods with CPUs that are offline, ascending by UID. Nil while there are none.
func (s *State) Degraded() []Degraded {
	var all []Degraded
	for g := range s.grants.all() {
		offline := s.OfflineOf(g)
		if offline.IsEmpty() {
			continue
		}
		d := Degraded{Grant: g, Offline: offline}
		for i := range g.Containers {
			if s.Displaced(g, i) {
				d.Displaced = append(d.Displaced, i)
			}
		}
		all = append(all, d)
	}
	return all
}

// Displaced reports whether container i was assigned CPUs, alone or with its pod, and none of them
// is online.
func (s *State) Displaced(g *Grant, i int) bool {
	own := g.Containers[i].CPUs
	return !own.IsEmpty() && !own.Intersects(s.machine.AllCPUs())
}

// RunsAlone reports whether container i runs on CPUs that no other container runs on: it was
// assigned some for itself, and at least one is online. Only such a container may run without CFS
// quota; one that is displaced shares CPUs, and its quota applies again.
func (s *State) RunsAlone(g *Grant, i int) bool {
	return g.Isolation(i) == ContainerIsolation && !s.Displaced(g, i)
}

// Cgroup is what container i's cgroup is created with and updated to; see Cgroups, which is for
// more than one container of a pod.
func (s *State) Cgroup(g *Grant, i int) (cpus cpuset.Set, mems mask.Mask) { return s.Cgroups(g).Of(i) }

// Cgroups is what the cgroups of a pod's containers are created with and updated to in one state.
// It computes what containers have in common once, and not before it is needed. It is not for
// concurrent use.
type Cgroups struct {
	s *State
	g *Grant
	// lostPool: the node shared pool is empty, as can be only because reserved CPUs are offline.
	lostPool bool
	// before are, for each container, the CPUs that sidecars and apps before it have alone, and
	// after those that containers of any type after it have alone. Nil until a container needs
	// them.
	before, after []cpuset.Set
	// anyone are the CPUs that no container of the node has alone.
	anyone *cpuset.Set
}

// Cgroups is what the containers of a grant run on.
func (s *State) Cgroups(g *Grant) *Cgroups {
	lost := s.policy.StaticCPU && !s.policy.CPU.StrictReservation && s.shared.IsEmpty() && !s.machine.AllCPUs().Contains(s.policy.ReservedCPUs)
	return &Cgroups{s: s, g: g, lostPool: lost}
}

// Of is cpuset.cpus of container i, empty where CPUs are not managed, and cpuset.mems, empty where
// not pinned (R-ST-65, R-MEM-80). CPUs are those that are online of what the container was
// assigned. A container of which none is online runs
//
//  1. on what is online of its pod's pool and belongs to no other container of the pod alone;
//  2. on the node shared pool;
//  3. on whatever is online of its pod's pool;
//  4. on whatever no container has alone, and at last on every CPU that is online.
//
// The kernel would do the last at once, for every cpuset without an online CPU
// (Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.effective), and so disturb every pod of the
// node. 3 comes after 2 because a slice is a promise to the container that has it; 3 and 4 are for
// a node shared pool that is empty. It does not become empty by CPUs going offline while an online
// CPU is reserved and reservation is not strict.
func (c *Cgroups) Of(i int) (cpus cpuset.Set, mems mask.Mask) {
	s, g := c.s, c.g
	own, mems := g.Containers[i].CPUs, g.Containers[i].MemoryNodes
	if g.Moving != nil {
		mems = g.bothMems(i)
	}
	online := s.machine.AllCPUs()
	switch {
	case own.IsEmpty() && !c.lostPool:
		return s.shared, mems
	case own.Intersects(online):
		return own.Intersection(online), mems
	}
	for _, refuge := range []func() cpuset.Set{
		func() cpuset.Set { return c.poolBeside(i) },
		func() cpuset.Set { return s.shared },
		func() cpuset.Set { return g.Pool },
		c.sharedByAnyone,
	} {
		if cpus := refuge().Intersection(online); !cpus.IsEmpty() {
			return cpus, mems
		}
	}
	return online, mems
}

// poolBeside is the pool without the CPUs that other containers of the pod have alone while
// container i runs, and without its own, of which none is online. Before the containers after it
// start, a standard init container has ended.
func (c *Cgroups) poolBeside(i int) cpuset.Set {
	if c.g.Pool.IsEmpty() {
		return cpuset.Set{}
	}
	if c.before == nil {
		c.slices()
	}
	left := c.g.Pool.Difference(c.before[i])
	if c.g.Pod.Containers[i].Type == request.Init {
		return left
	}
	return left.Difference(c.after[i])
}

// slices computes before and after. Containers between two that have CPUs alone share their sets.
func (c *Cgroups) slices() {
	g, n := c.g, len(c.g.Containers)
	c.before, c.after = make([]cpuset.Set, n), make([]cpuset.Set, n)
	for i := 1; i < n; i++ {
		if c.before[i] = c.before[i-1]; g.Isolation(i-1) == ContainerIsolation && g.Pod.Containers[i-1].Type != request.Init {
			c.before[i] = c.before[i].Union(g.Containers[i-1].CPUs)
		}
	}
	for i := n - 2; i >= 0; i-- {
		if c.after[i] = c.after[i+1]; g.Isolation(i+1) == ContainerIsolation {
			c.after[i] = c.after[i].Union(g.Containers[i+1].CPUs)
		}
	}
}

// sharedByAnyone are the CPUs that no container has alone.
func (c *Cgroups) sharedByAnyone() cpuset.Set {
	if c.anyone == nil {
		var alone cpuset.Builder
		for g := range c.s.grants.all() {
			for i := range g.Containers {
				if g.Isolation(i) == ContainerIsolation {
					alone.AddSet(g.Containers[i].CPUs)
				}
			}
		}
		left := c.s.machine.AllCPUs().Difference(alone.Set())
		c.anyone = &left
	}
	return *c.anyone
}

// assigned are the CPUs of all grants.
func assigned(grants iter.Seq[*Grant]) cpuset.Set {
	var b cpuset.Builder
	for g := range grants {
		b.AddSet(g.CPUs())
	}
	return b.Set()
}
