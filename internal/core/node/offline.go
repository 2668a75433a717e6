package node

import (
	"iter"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// OnMachine returns the state after CPUs of the machine went offline or came online. m is the
// machine as it is now. Grants do not change. See Adopt. If m is the machine of s, OnMachine
// returns s. The error names a pod that cannot stay, e.g. because a whole NUMA node with its memory
// is gone. The old state is still valid then.
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

// Offline returns the CPUs that are assigned to pods and are not online: the machine does not have
// them now. No other pod gets them.
func (s *State) Offline() cpuset.Set {
	var b cpuset.Builder
	for g := range s.grants.all() {
		b.AddSet(s.OfflineOf(g))
	}
	return b.Set()
}

// OfflineOf returns the CPUs of a grant that are not online.
func (s *State) OfflineOf(g *Grant) cpuset.Set { return g.CPUs().Difference(s.machine.AllCPUs()) }

// Degraded is a pod that has less than it was assigned, because some of its CPUs are offline.
type Degraded struct {
	Grant *Grant
	// Offline CPUs are assigned to the pod and are not online.
	Offline cpuset.Set
	// Displaced has the indexes of the containers that have no online CPU of their own or of their
	// pod's, and run elsewhere. See Cgroup.
	Displaced []int
}

// Degraded returns the pods with CPUs that are offline, ascending by UID. It returns nil if there
// are none.
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

// RunsAlone reports whether container i runs on CPUs on which no other container runs: it was
// assigned its own CPUs, and at least one is online. Only such a container may run without CFS
// quota. A container that is displaced shares CPUs, and its quota applies again.
func (s *State) RunsAlone(g *Grant, i int) bool {
	return g.Isolation(i) == ContainerIsolation && !s.Displaced(g, i)
}

// Cgroup returns the cpuset with which container i's cgroup is created and updated. Use Cgroups for
// more than one container of a pod.
func (s *State) Cgroup(g *Grant, i int) (cpus cpuset.Set, mems mask.Mask) { return s.Cgroups(g).Of(i) }

// Cgroups computes the cpusets with which the cgroups of a pod's containers are created and updated
// in one state. It computes what containers have in common once, and only when it is needed. It is
// not safe for concurrent use.
type Cgroups struct {
	s *State
	g *Grant
	// lostPool is set if the node shared pool is empty, which happens only when reserved CPUs are
	// offline.
	lostPool bool
	// before has, for each container, the CPUs that sidecars and apps before it have alone. after
	// has the CPUs that containers of any type after it have alone. Both are nil until a container
	// needs them.
	before, after []cpuset.Set
	// anyone has the CPUs that no container of the node has alone. It is nil until it is needed.
	anyone *cpuset.Set
}

// Cgroups returns the cpusets of the containers of a grant.
func (s *State) Cgroups(g *Grant) *Cgroups {
	lost := s.policy.StaticCPU && !s.policy.CPU.StrictReservation && s.SharedCPUs().IsEmpty() && !s.machine.AllCPUs().Contains(s.policy.ReservedCPUs)
	return &Cgroups{s: s, g: g, lostPool: lost}
}

// Of returns cpuset.cpus of container i, which is empty if CPUs are not managed, and cpuset.mems,
// which is empty if the container is not pinned (R-ST-65, R-MEM-80). The CPUs are the online ones
// of those that the container was assigned. If none of them is online, the container runs
//
//  1. on the online CPUs of its pod's pool that no other container of the pod has alone;
//  2. on the node shared pool;
//  3. on all online CPUs of its pod's pool;
//  4. on the online CPUs that no container has alone, and finally on every online CPU.
//
// For every cpuset without an online CPU, the kernel would use every online CPU at once
// (Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.effective), and so disturb every pod of the
// node. Step 3 comes after step 2 because a slice is a promise to its container. Steps 3 and 4 are
// for an empty node shared pool. The pool does not become empty by CPUs going offline while an
// online CPU is reserved and reservation is not strict.
func (c *Cgroups) Of(i int) (cpus cpuset.Set, mems mask.Mask) {
	s, g := c.s, c.g
	own, mems := g.Containers[i].CPUs, g.Containers[i].MemoryNodes
	if g.Moving != nil {
		mems = g.bothMems(i)
	}
	online := s.machine.AllCPUs()
	switch {
	case own.IsEmpty() && !c.lostPool:
		return s.SharedCPUs(), mems
	case own.Intersects(online):
		return own.Intersection(online), mems
	}
	for _, refuge := range []func() cpuset.Set{
		func() cpuset.Set { return c.poolBeside(i) },
		s.SharedCPUs,
		func() cpuset.Set { return g.Pool },
		c.sharedByAnyone,
	} {
		if cpus := refuge().Intersection(online); !cpus.IsEmpty() {
			return cpus, mems
		}
	}
	return online, mems
}

// poolBeside returns the pool without the CPUs that other containers of the pod have alone while
// container i runs. The container's own CPUs need no exclusion: none of them is online. A standard
// init container has ended before the containers after it start.
func (c *Cgroups) poolBeside(i int) cpuset.Set {
	if c.g.Pool.IsEmpty() {
		return cpuset.Set{}
	}
	if c.before == nil {
		c.slices()
	}
	left := c.g.Pool.Difference(c.before[i])
	if c.s.apart(&c.g.Pod) {
		left = left.Difference(c.s.isolated)
	}
	if c.g.Pod.Containers[i].Type == request.Init {
		return left
	}
	return left.Difference(c.after[i])
}

// slices computes before and after. Adjacent containers share a set if no container between them
// has CPUs alone.
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

// sharedByAnyone returns the CPUs that no container has alone.
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
		if others := c.s.sharedOf(left); !others.IsEmpty() {
			left = others
		}
		c.anyone = &left
	}
	return *c.anyone
}

// assigned returns the CPUs of all grants.
func assigned(grants iter.Seq[*Grant]) cpuset.Set {
	var b cpuset.Builder
	for g := range grants {
		b.AddSet(g.CPUs())
	}
	return b.Set()
}
