package node

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrStale is returned by Apply for a plan that was made for another state.
var ErrStale = errors.New("plan was made for another state")

// State is a Kubernetes node with everything that is assigned to its pods. It is immutable: methods
// that change something return the next state, which shares the unchanged parts with the old one.
type State struct {
	*basis
	generation uint64

	ledger
	grants roster
	// reserved has the resources kept for pods that do not have them yet. It is nil if nothing is
	// reserved.
	reserved *reserved

	// residue is what the grants do not explain, and past is what a kubelet keeps beside it. Both
	// are nil where Paddock decides.
	residue []Residue
	past    *past
}

// basis is what all states of a node share, and all nodes that start from one state. States only
// point to it, so a question about the next node of a fleet reads little memory that is not in the
// processor's caches yet. It never changes.
type basis struct {
	machine  *machine.Machine
	policy   Policy
	capacity *memory.Capacity
	// withheld are the CPUs that never become exclusive: the reserved ones and, with
	// cpu.IsolatedOnly, those that are not isolated. withheldPhysical has all threads of the cores
	// that have one of them (R-CPU-24). isolated are the CPUs that are in no shared pool
	// (R-CPU-130).
	withheld, withheldPhysical, isolated cpuset.Set
	// distances is set for prefer-closest-numa-nodes only.
	distances [][]int
}

// under returns the basis with another policy for the same memory and reserved CPUs.
func (b *basis) under(p Policy) *basis {
	next := *b
	next.policy = p
	return &next
}

// New returns the state of a node without pods. Reserved CPUs that the machine does not have are
// offline: they stay reserved, which matters when they come back online.
func New(m *machine.Machine, p Policy) (*State, error) {
	capacity, err := memory.NewCapacity(m, p.ReservedMemory)
	if err != nil {
		return nil, err
	}
	s := &State{basis: &basis{machine: m, policy: p, capacity: capacity}, ledger: ledger{usage: memory.NewUsage(capacity), caches: cache.NewUsage(m)}}
	if p.Behavior != (Behavior{}) {
		s.usage = s.usage.Kept()
	}
	none, err := device.NewInventory(m, nil)
	if err != nil {
		return nil, err
	}
	s.devices = device.NewUsage(none)
	s.withheld, s.isolated = p.ReservedCPUs, p.CPU.IsolatedCPUs(m)
	if p.CPU.Isolated == cpu.IsolatedOnly {
		s.withheld = s.withheld.Union(m.AllCPUs().Difference(s.isolated))
	}
	s.withheldPhysical = cpu.PhysicalOf(m, s.withheld)
	s.unassigned = s.sharable()
	if p.PreferClosest && m.HasDistances() {
		s.distances = distances(m)
	}
	return s, nil
}

// sharable returns the CPUs that no pod has on a node without pods (R-CPU-30).
func (s *State) sharable() cpuset.Set {
	switch {
	case !s.policy.StaticCPU:
		return cpuset.Set{}
	case s.policy.CPU.StrictReservation:
		return s.machine.AllCPUs().Difference(s.policy.ReservedCPUs)
	}
	return s.machine.AllCPUs()
}

func distances(m *machine.Machine) [][]int {
	nodes := m.NodeMask()
	rows := make([][]int, nodes.Highest()+1)
	for a := range nodes.All() {
		rows[a] = make([]int, nodes.Highest()+1)
		for b := range nodes.All() {
			rows[a][b] = m.Distance(a, b)
		}
	}
	return rows
}

// Machine returns the hardware of the node.
func (s *State) Machine() *machine.Machine { return s.machine }

// Policy returns the rules by which the node decides.
func (s *State) Policy() Policy { return s.policy }

// Generation returns the revision of the state. It grows with every change, up to MaxGeneration.
func (s *State) Generation() uint64 { return s.generation }

// SharedCPUs returns the node shared pool, on which every container without CPUs of its own runs.
// It is empty under CPU policy none, which manages no CPUs. With the option isolated-cpus it has no
// isolated CPU (R-CPU-130).
func (s *State) SharedCPUs() cpuset.Set { return s.sharedOf(s.unassigned) }

// sharedOf returns what containers can share of a set of CPUs: those that are not isolated.
func (s *State) sharedOf(cpus cpuset.Set) cpuset.Set {
	if s.isolated.IsEmpty() {
		return cpus
	}
	return cpus.Difference(s.isolated)
}

// IsolatedCPUs returns the CPUs that are in no shared pool (R-CPU-130). It is empty without the
// option isolated-cpus.
func (s *State) IsolatedCPUs() cpuset.Set { return s.isolated }

// AllocatableCPUs returns the CPUs that can ever become exclusive (R-CPU-31, R-CPU-132).
func (s *State) AllocatableCPUs() cpuset.Set {
	if !s.policy.StaticCPU {
		return cpuset.Set{}
	}
	return s.machine.AllCPUs().Difference(s.withheld)
}

// AvailableCPUs returns the CPUs that can become exclusive now (R-CPU-31, R-CPU-132).
func (s *State) AvailableCPUs() cpuset.Set { return s.unassigned.Difference(s.withheld) }

// FreeCPUs returns the CPUs that pods can get now: those that can become exclusive, and those that
// only the containers that share a pool can have.
func (s *State) FreeCPUs() cpuset.Set { return s.unassigned.Difference(s.policy.ReservedCPUs) }

// PhysicalCPUs returns the CPUs that can become exclusive now and that are on cores without a CPU
// that cannot (R-CPU-71).
func (s *State) PhysicalCPUs() cpuset.Set { return s.unassigned.Difference(s.withheldPhysical) }

// Memory returns the memory accounting: the memory that is assigned.
func (s *State) Memory() memory.Usage { return s.usage }

// Grants returns all grants, ascending by UID. The caller owns the slice. AllGrants and NumGrants
// allocate none.
func (s *State) Grants() []*Grant {
	return slices.AppendSeq(make([]*Grant, 0, s.grants.len), s.grants.all())
}

// AllGrants yields all grants, ascending by UID.
func (s *State) AllGrants() iter.Seq[*Grant] { return s.grants.all() }

// NumGrants returns how many pods have grants.
func (s *State) NumGrants() int { return s.grants.len }

// Grant returns the grant of the pod with that UID.
func (s *State) Grant(uid string) (*Grant, bool) { return s.grants.get(uid) }

// Apply returns the next state for a plan. A plan that was rejected, or that found the pod known,
// changes nothing: Apply returns the same state, except for what a rejection leaves in a kubelet
// (Behavior.KeepsRejected). The error wraps ErrStale or ErrExhausted, or names the invariant that
// the plan would break.
func (s *State) Apply(p *Plan) (*State, error) {
	switch {
	case p.Base != s.generation:
		return nil, fmt.Errorf("%w: revision %d, now %d", ErrStale, p.Base, s.generation)
	case p.left != nil:
		return s.applyAs(p)
	case p.Grant == nil || p.Known:
		return s, nil
	case s.generation >= MaxGeneration:
		return nil, fmt.Errorf("%w: %d is the last; drain the node and start with a new state file", ErrExhausted, s.generation)
	}
	free := s.FreeCPUs()
	if p.Before != nil {
		free = free.Union(p.Before.CPUs())
	}
	if err := s.checkGrant(p.Grant, free); err != nil {
		return nil, fmt.Errorf("pod %s: %w", p.Pod.ID(), err)
	}
	n := s.next()
	n.ledger = p.ledger
	n.grants = s.grants.with(p.Grant)
	return n, nil
}

// Release returns the state without the pod: everything that the pod has is free again. An unknown
// pod changes nothing.
func (s *State) Release(uid string) *State {
	s = s.swept("")
	g, found := s.Grant(uid)
	if !found {
		return s
	}
	n := s.next()
	n.unassigned = s.unassigned.Union(g.CPUs()).Intersection(s.sharable())
	n.usage = s.usage.Release(g.Charged())
	n.devices = returnDevices(s.devices, g.Devices())
	n.caches = returnClasses(s.caches, g)
	n.grants = s.grants.without(uid)
	if s.policy.Behavior != (Behavior{}) && !s.gave(n, g) {
		n.settle(&g.Pod, nil)
	}
	return n
}

// RemoveContainer takes back what only this container of the pod needs: its own CPUs or, with the
// last container of a pool, the pool (R-CPU-100, R-MEM-60, R-MEM-61). An unknown container or pod
// changes nothing. Neither does a container of a pod whose request is estimated, because it may not
// be the last one.
func (s *State) RemoveContainer(uid, name string) *State {
	old, found := s.Grant(uid)
	if !found {
		return s
	}
	_, i := old.Pod.Container(name)
	if i < 0 || old.Containers[i].Removed || old.Pod.Estimated {
		return s
	}
	return s.replace(old, old.eachPlace(func(g *Grant) {
		g.Containers = slices.Clone(g.Containers)
		g.Containers[i] = ContainerGrant{Removed: true, Affinity: g.Containers[i].Affinity}
		if !slices.ContainsFunc(g.Containers, func(c ContainerGrant) bool { return !c.CPUs.IsEmpty() }) {
			g.Pool, g.PoolBaseline = cpuset.Set{}, cpuset.Set{}
		}
		if g.sharedCPUs().IsEmpty() {
			g.PoolCache = nil
		}
		if !slices.ContainsFunc(g.Containers, func(c ContainerGrant) bool { return len(c.Memory) > 0 }) {
			g.PoolMemory = nil
		}
	}))
}

// ContainerCreated returns the state after the runtime created a container: the memory of the
// standard init containers before it is not needed any more (R-MEM-63).
func (s *State) ContainerCreated(uid, name string) *State {
	old, found := s.Grant(uid)
	if !found {
		return s
	}
	_, i := old.Pod.Container(name)
	done := func(k int) bool {
		return k < i && old.Pod.Containers[k].Type == request.Init && len(old.Containers[k].Memory) > 0
	}
	g := *old
	changed := false
	for k := range max(0, i) {
		if !done(k) {
			continue
		}
		if !changed { // Most containers change nothing, and a pod may have thousands.
			g.Containers, changed = slices.Clone(old.Containers), true
		}
		g.Containers[k].Memory = nil
	}
	if old.Moving != nil {
		place := *old.Moving
		place.Containers = slices.Clone(place.Containers)
		for k := range max(0, i) {
			if g.Containers[k].Memory == nil && len(place.Containers[k].Memory) > 0 && old.Pod.Containers[k].Type == request.Init {
				place.Containers[k].Memory, changed = nil, true
			}
		}
		g.Moving = &place
	}
	if !changed {
		return s
	}
	return s.replace(old, &g)
}

// WithClaims records what is known now about the ResourceClaims of a pod, for reports. A pod that
// is not known, or claims that are recorded already, change nothing.
func (s *State) WithClaims(uid string, claims []request.Claim) *State {
	old, found := s.Grant(uid)
	if !found || request.SameClaims(old.Pod.ResourceClaims, claims) {
		return s
	}
	return s.replace(old, old.eachPlace(func(g *Grant) { g.Pod.ResourceClaims = claims }))
}

// replace returns the state with g in place of the grant old, and frees what g does not have any
// more.
func (s *State) replace(old, g *Grant) *State {
	n := s.next()
	n.unassigned = s.unassigned.Union(old.CPUs().Difference(g.CPUs())).Intersection(s.sharable())
	var blocks []memory.Block // charged to old and not to g
	switch {
	case old.Moving != nil:
		blocks = old.Charged()
	case len(old.PoolMemory) > 0 && len(g.PoolMemory) == 0:
		blocks = old.PoolMemory
	case len(old.PoolMemory) == 0:
		for i := range old.Containers {
			if len(g.Containers[i].Memory) == 0 {
				blocks = append(blocks, old.Containers[i].Memory...)
			}
		}
	}
	n.usage = s.usage.Release(blocks)
	if old.Moving != nil {
		n.usage = n.usage.Charge(g.Charged(), nil)
	}
	n.devices = returnDevices(s.devices, endedDevices(old, g))
	n.caches = exchangeClasses(s.caches, old, g)
	n.grants = s.grants.with(g)
	n.settle(&g.Pod, nil)
	return n
}

// endedDevices returns the devices that old has and g does not.
func endedDevices(old, g *Grant) []device.Assigned {
	kept := g.Devices()
	var gone []device.Assigned
	for _, h := range old.Devices() {
		i := slices.IndexFunc(kept, func(k device.Assigned) bool { return k.Resource == h.Resource })
		ids := slices.DeleteFunc(slices.Clone(h.IDs), func(id string) bool {
			if i < 0 {
				return false
			}
			_, still := slices.BinarySearch(kept[i].IDs, id)
			return still
		})
		gone = append(gone, device.Assigned{Resource: h.Resource, IDs: ids})
	}
	return gone
}
