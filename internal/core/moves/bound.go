package moves

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// bounds counts what is free on each NUMA node: CPUs first, then each type of memory. The counts
// are upper bounds of what the core compares with, so what does not fit here does not fit there.
type bounds struct {
	state *node.State
	ids   []int // of the NUMA nodes, ascending
	types []string
	// free is indexed by NUMA node, then by resource. total is the sum over the NUMA nodes.
	free  [][]int64
	total []int64
	// exclusive has the number of free CPUs of each NUMA node that a container can have alone, and
	// usable has all CPUs of that kind. With isolated-cpus: only, they are the isolated ones.
	exclusive []int64
	usable    cpuset.Set
}

// claim is what a pod needs at the same time, by resource. If together is set, alone is the part
// that is on one NUMA node: all of it or, if the containers of the pod are aligned one by one, what
// the largest one needs.
type claim struct {
	wants, alone []int64
	together     bool
}

// leaving is what a pod frees when it moves: how much on each NUMA node, by resource.
type leaving struct {
	frees [][]int64
	total []int64
	// exclusive is the part of the CPUs of each NUMA node that a container can have alone.
	exclusive []int64
	// home is the index of the only NUMA node that the pod has, or -1. bytes is the cost of leaving
	// it with all containers, least the cost of leaving it with the claim's alone. stays is set if
	// the pod may not leave it.
	home         int
	bytes, least int64
	stays        bool
}

func newBounds(s *node.State) *bounds {
	b := &bounds{state: s, types: s.Memory().Capacity().Types()}
	b.total = make([]int64, 1+len(b.types))
	b.usable = s.Machine().AllCPUs()
	if o := s.Policy().CPU; o.Isolated == cpu.IsolatedOnly {
		b.usable = o.IsolatedCPUs(s.Machine())
	}
	for _, n := range s.Memory().Nodes() {
		b.exclusive = append(b.exclusive, b.usableOn(n.ID, s.FreeCPUs()))
		free := make([]int64, len(b.total))
		free[0] = int64(s.FreeCPUs().IntersectionLen(s.Machine().CPUsOf(mask.Of(n.ID))))
		for t, bytes := range n.Free {
			free[1+t] = bytes
		}
		for r := range free {
			b.total[r] += free[r]
		}
		b.ids = append(b.ids, n.ID)
		b.free = append(b.free, free)
	}
	return b
}

// usableOn returns the number of CPUs of set on a NUMA node that a container can have alone.
func (b *bounds) usableOn(id int, set cpuset.Set) int64 {
	return int64(set.Intersection(b.usable).IntersectionLen(b.state.Machine().CPUsOf(mask.Of(id))))
}

// claimOf returns the claim of a pod. aligned is set if the pod is aligned as its policy prefers.
// If containers are aligned one by one, or not at all, only the largest one is counted. What fits
// on no single NUMA node of the empty machine is counted in total only: one NUMA node is certain to
// be preferred only for the rest.
func (b *bounds) claimOf(pod *request.Pod, aligned bool) claim {
	d := b.state.Demand(pod)
	ask := &d.Together
	if d.Path != node.AsOne && d.Path != node.AsPool {
		for i := range d.Containers {
			if i == 0 || d.Containers[i].CPUs > ask.CPUs {
				ask = &d.Containers[i].Ask
			}
		}
	}
	c := claim{wants: make([]int64, 1+len(b.types))}
	c.wants[0] = int64(ask.CPUs)
	for t, name := range b.types {
		c.wants[1+t], _ = ask.Memory.Get(name)
	}
	c.alone = c.wants
	c.together = aligned && d.Path != node.Unaligned && len(ask.Memory)+ask.CPUs > 0 && b.prefersOne(c.alone)
	return c
}

// largestOf returns what the largest container of a pod has, among those that are aligned one by
// one as the policy prefers. A move preserves that.
func (b *bounds) largestOf(g *node.Grant) (has []int64, together bool) {
	var largest *node.ContainerGrant
	for i := range g.Containers {
		c := &g.Containers[i]
		if g.Pod.Containers[i].Type == request.Init || c.Removed || !c.Affinity.HasMask || !c.Affinity.Preferred {
			continue
		}
		if largest == nil || c.CPUs.Len() > largest.CPUs.Len() {
			largest = c
		}
	}
	has = make([]int64, 1+len(b.types))
	if largest == nil {
		return has, false
	}
	has[0] = int64(largest.CPUs.Len())
	for t, name := range b.types {
		for _, block := range largest.Memory {
			if block.Type == name {
				has[1+t] += block.Size
			}
		}
	}
	return has, b.prefersOne(has)
}

// claimOfGrant returns the claim of an existing pod, without what it gave back since its admission.
// It is less than or equal to what the pod has at another place, whatever its init containers have
// there.
func (b *bounds) claimOfGrant(g *node.Grant) claim {
	c := b.claimOf(&g.Pod, isAligned(g))
	clear(c.wants)
	var initial int
	for i := range g.Containers {
		asks, has := &g.Pod.Containers[i], &g.Containers[i]
		switch n := has.CPUs.Len(); {
		case !g.Pool.IsEmpty():
		case asks.Type == request.Init:
			initial = max(initial, n)
		default:
			c.wants[0] += int64(n)
		}
		for t, name := range b.types {
			for _, block := range has.Memory {
				if block.Type == name && asks.Type != request.Init && len(g.PoolMemory) == 0 {
					c.wants[1+t] += block.Size
				}
			}
		}
	}
	c.wants[0] = max(c.wants[0], int64(initial), int64(g.Pool.Len()))
	for t, name := range b.types {
		for _, block := range g.PoolMemory {
			if block.Type == name {
				c.wants[1+t] += block.Size
			}
		}
	}
	if p := b.state.Policy(); p.Scope == node.ContainerScope && p.Topology != node.TopologyNone {
		c.alone, c.together = b.largestOf(g)
	}
	return c
}

// memoryOf returns the bytes of memory in amounts by resource.
func memoryOf(amounts []int64) (bytes int64) {
	for _, n := range amounts[1:] {
		bytes += n
	}
	return bytes
}

// prefersOne reports whether one NUMA node is preferred for what is aligned together: the CPUs and
// the memory each fit on one NUMA node of the empty machine, and CPUs are not aligned by socket.
// With the option isolated-cpus, only some CPUs of a NUMA node count, and more NUMA nodes may be
// preferred.
func (b *bounds) prefersOne(wants []int64) bool {
	if o := b.state.Policy().CPU; o.AlignBySocket || o.Isolated != cpu.IsolatedAlike {
		return false
	}
	var largest int
	for _, n := range b.state.Machine().CPUNodes() {
		largest = max(largest, n.Size)
	}
	memory := false
	for _, n := range b.state.Memory().Capacity().Nodes() {
		all := true
		for t := range b.types {
			all = all && n.Types[t].Allocatable >= wants[1+t]
		}
		memory = memory || all
	}
	return int64(largest) >= wants[0] && memory
}

// isAligned reports whether every container is aligned as its policy prefers, which a move must not
// change.
func isAligned(g *node.Grant) bool {
	for i := range g.Containers {
		if c := &g.Containers[i]; !c.Removed && !(c.Affinity.HasMask && c.Affinity.Preferred) {
			return false
		}
	}
	return true
}

func (b *bounds) leavingOf(g *node.Grant, consent request.Consent) leaving {
	l := leaving{home: -1, stays: consent < request.MoveMemory, total: make([]int64, len(b.total))}
	cpus := g.CPUs().Difference(b.state.Policy().ReservedCPUs)
	nodes := b.state.Machine().NodesOf(g.CPUs())
	for _, block := range g.Charged() {
		nodes |= block.Nodes
	}
	for at, id := range b.ids {
		frees := make([]int64, len(b.total))
		frees[0] = int64(cpus.IntersectionLen(b.state.Machine().CPUsOf(mask.Of(id))))
		l.total[0] += frees[0]
		for _, block := range g.Charged() {
			for t, name := range b.types {
				if block.Type == name && block.Nodes.Has(id) {
					frees[1+t] += block.Size // How a block is spread over several NUMA nodes does not matter: at most, all of it is on this one.
				}
			}
		}
		l.frees, l.exclusive = append(l.frees, frees), append(l.exclusive, b.usableOn(id, cpus))
		if nodes == mask.Of(id) {
			l.home = at
		}
	}
	for _, block := range g.Charged() {
		for t, name := range b.types {
			if block.Type == name {
				l.total[1+t] += block.Size
			}
		}
	}
	for i := range g.Containers { // Init containers may have more or less at another place.
		if g.Pod.Containers[i].Type != request.Init && len(g.PoolMemory) == 0 {
			for _, block := range g.Containers[i].Memory {
				l.bytes += block.Size
			}
		}
	}
	for _, block := range g.PoolMemory {
		l.bytes += block.Size
	}
	l.least = l.bytes
	return l
}

// least returns the least that moving the candidates can cost. It returns false if the pod cannot
// fit after any such moves.
func (x *search) least(members []int) (int64, bool) {
	a := &x.pods[members[0]]
	b := (*candidate)(nil)
	if len(members) > 1 {
		b = &x.pods[members[1]]
	}
	for r, free := range x.bounds.total {
		free += a.leaves.total[r] - a.claim.wants[r] - x.claim.wants[r]
		if b != nil {
			free += b.leaves.total[r] - b.claim.wants[r]
		}
		if free < 0 {
			return 0, false
		}
	}
	if !x.claim.together {
		return 0, true
	}
	least, ok := int64(0), false
	for at := range x.bounds.ids {
		if !x.room(a, b, at, at, -1, -1) {
			continue
		}
		if cost, fits := x.place(a, b, at); fits && (!ok || cost < least) {
			if least, ok = cost, true; least == 0 {
				break
			}
		}
	}
	return least, ok
}

// place returns the least cost of places for the candidates if the pod is on a NUMA node, given by
// its index.
func (x *search) place(a, b *candidate, pod int) (least int64, ok bool) {
	for atA := range x.options(a) {
		costA, may := a.cost(atA)
		if !may || ok && costA >= least || !x.room(a, b, atA, pod, atA, -1) {
			continue
		}
		if b == nil {
			least, ok = costA, true
			continue
		}
		for atB := range x.options(b) {
			cost, may := b.cost(atB)
			if cost += costA; may && (!ok || cost < least) && x.room(a, b, atB, pod, atA, atB) {
				least, ok = cost, true
			}
		}
	}
	return least, ok
}

// options returns the number of NUMA nodes to try for a candidate: one if it may be on several.
func (x *search) options(c *candidate) int {
	if !c.claim.together {
		return 1
	}
	return len(x.bounds.ids)
}

// cost returns the cost of a place of a candidate, by the index of the NUMA node, and whether the
// candidate may be there.
func (c *candidate) cost(at int) (int64, bool) {
	if !c.claim.together || c.leaves.home < 0 || at == c.leaves.home {
		return 0, true
	}
	return c.leaves.least, !c.leaves.stays
}

// room reports whether a NUMA node has room for all of the three that are on it. An index of -1
// means that a candidate has no place yet.
func (x *search) room(a, b *candidate, at, pod, atA, atB int) bool {
	for r, free := range x.bounds.free[at] {
		free += a.leaves.frees[at][r]
		if b != nil {
			free += b.leaves.frees[at][r]
			if atB == at && b.claim.together {
				free -= b.claim.alone[r]
			}
		}
		if atA == at && a.claim.together {
			free -= a.claim.alone[r]
		}
		if pod == at {
			free -= x.claim.alone[r]
		}
		if free < 0 {
			return false
		}
	}
	return true
}
