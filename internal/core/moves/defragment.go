package moves

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Gain describes how much larger a pod can be after moves.
type Gain struct {
	// Before and After are the largest number of CPUs that a Guaranteed pod of one container can
	// get on one NUMA node, and that NUMA node.
	Before, After Room
	// Moves are in an order in which each place is free when its move begins. States has the node
	// after each move.
	Moves  []Move
	States []*node.State
	// Bytes is the memory, in bytes, that gets other NUMA nodes.
	Bytes int64
	// Plans is the number of plans that were made. Cut is set if the search ended before it had
	// tried everything.
	Plans int
	Cut   bool
}

// Room is a number of CPUs that a pod can get on a NUMA node.
type Room struct{ CPUs, Node int }

// probeMemory is the memory, in bytes, that the probe asks for if memory is managed: a small
// amount.
const probeMemory = 1 << 20

// mostSets limits the number of sets that the count does not exclude: 200 pods on 8 NUMA nodes have
// about 60,000 sets of at most three on a NUMA node.
const mostSets = 100_000

// Defragment looks for moves after which the largest pod that fits on one NUMA node has the most
// CPUs. most is the maximum number of moves. Among equal results, it prefers those that move the
// fewest bytes between NUMA nodes, then the fewest pods. Pods move off a NUMA node, and they must
// consent to that. The planner chooses every place, and a pod stays as aligned as it is. No move
// gains anything under topology policy none, which aligns nothing, or without the static CPU
// policy.
//
// Defragment tries all sets of at most two pods in all orders, and all sets of three pods on one
// NUMA node. It builds larger sets step by step, once with the largest pods first and once with the
// cheapest first, so it can miss a better set. It can also miss one if a pod is on several NUMA
// nodes, if a pod moves to the NUMA node that another one leaves, if only some containers of a pod
// leave, and under best-effort.
func Defragment(s *node.State, most int, terms Terms) Gain {
	g := newGather(s, most, terms)
	g.bounds = newBounds(s)
	before := g.largest(s)
	g.best = Gain{Before: before, After: before}
	g.collect()
	g.pods = slices.DeleteFunc(g.pods, func(c candidate) bool { return c.leaves.stays || c.leaves.total[0] == 0 })
	if s.Policy().StaticCPU && s.Policy().Topology != node.TopologyNone {
		for at := range g.bounds.ids {
			g.grow(at)
		}
		g.exact()
	}
	g.best.Plans, g.best.Cut = g.plans, g.cut
	return g.best
}

// gather is a search for moves off one NUMA node.
type gather struct {
	*search
	unit, most int
	best       Gain
}

// Largest returns the size of the largest pod that fits on one NUMA node: a Guaranteed pod of one
// container.
func Largest(s *node.State) Room { return newGather(s, 0, Terms{}).largest(s) }

func newGather(s *node.State, most int, terms Terms) *gather {
	g := &gather{search: &search{state: s, terms: terms}, unit: 1, most: most}
	if s.Policy().CPU.FullPCPUsOnly {
		g.unit = max(1, s.Machine().CPUsPerCore())
	}
	return g
}

// group is a set of pods, by index, that leaves a NUMA node, with the number of CPUs that are free
// there then, and the least cost in bytes.
type group struct {
	members []int
	cpus    int
	bytes   int64
}

// largest returns the size of the largest pod that fits on one NUMA node.
func (g *gather) largest(s *node.State) Room {
	if !s.Policy().StaticCPU {
		return Room{}
	}
	for n := g.mostFree(s); n > 0; n -= g.unit {
		if !g.takes(n) {
			continue
		}
		if p, at := g.probe(s, n); p != nil {
			return Room{n, at}
		}
	}
	return Room{}
}

// takes reports whether the node takes the requests of one more pod of that many CPUs.
func (g *gather) takes(cpus int) bool { return g.terms.Fits == nil || g.terms.Fits(cpus) }

// mostFree returns the largest number of CPUs that are free on one NUMA node and that a pod can ask
// for.
func (g *gather) mostFree(s *node.State) (most int) {
	for _, unit := range s.Machine().CPUNodes() {
		most = max(most, s.AvailableCPUs().IntersectionLen(unit.CPUs))
	}
	return most / g.unit * g.unit
}

// probe plans a pod of that many CPUs, and returns the plan with the NUMA node that has all of
// them. It returns nil if there is none.
func (g *gather) probe(s *node.State, cpus int) (*node.Plan, int) {
	c := request.Container{Name: "c", Type: request.App, CPUs: cpus, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Equivalent: true}
	if s.Policy().StaticMemory {
		c.Memory = request.Amounts{{Resource: machine.Memory, Value: probeMemory}}
	}
	p := g.plan(s, request.Pod{Identity: request.Identity{UID: "\x00probe", Namespace: "default", Name: "probe"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{c}}})
	if p.Rejection != nil {
		return nil, 0
	}
	nodes := s.Machine().NodesOf(p.Grant.CPUs()).Nodes()
	if len(nodes) != 1 || p.Grant.CPUs().Len() != cpus {
		return nil, 0
	}
	return p, nodes[0]
}

// group returns the group of the members that leaves the NUMA node with the index at.
func (g *gather) group(at int, members ...int) group {
	cpus, bytes := g.bounds.exclusive[at], int64(0)
	for _, i := range members {
		cpus += g.pods[i].leaves.exclusive[at]
		if g.pods[i].leaves.home == at { // A pod that is not only on this NUMA node may keep its memory.
			bytes += g.pods[i].leaves.bytes
		}
	}
	return group{slices.Clone(members), int(cpus) / g.unit * g.unit, bytes}
}

// better reports whether that many CPUs, for that many bytes and moves, may be better than the best
// result so far.
func (g *gather) better(cpus int, bytes int64, moves int) bool {
	b := &g.best
	if cpus != b.After.CPUs || len(b.Moves) == 0 {
		return cpus > b.After.CPUs
	}
	return cmp.Or(cmp.Compare(bytes, b.Bytes), cmp.Compare(moves, len(b.Moves))) < 0
}

// grow adds pods one by one to the group that leaves a NUMA node, while the group can leave.
func (g *gather) grow(at int) {
	var here []int
	for i := range g.pods {
		if g.pods[i].leaves.exclusive[at] > 0 {
			here = append(here, i)
		}
	}
	if all := g.group(at, here...); !g.better(all.cpus, 0, 1) {
		return
	}
	cpus := func(i int) int64 { return g.pods[i].leaves.exclusive[at] }
	bytes := func(i int) int64 { return g.pods[i].leaves.bytes }
	for _, by := range []func(i, k int) int{
		func(i, k int) int { return cmp.Or(cmp.Compare(cpus(k), cpus(i)), cmp.Compare(bytes(i), bytes(k))) },
		func(i, k int) int { // bytes per CPU
			return cmp.Or(cmp.Compare(bytes(i)*cpus(k), bytes(k)*cpus(i)), cmp.Compare(cpus(k), cpus(i)))
		},
	} {
		slices.SortStableFunc(here, by)
		var members []int
		for _, i := range here {
			if len(members) == g.most || g.cut {
				break
			}
			if c := g.group(at, append(members, i)...); g.fits(at, c) && g.leave(at, c) {
				members = c.members
			}
		}
	}
}

// exact tries the sets of at most two pods, and of three pods on one NUMA node, the best first.
func (g *gather) exact() {
	type place struct {
		group
		at int
	}
	var all []place
	add := func(at, less int, members ...int) {
		c := g.group(at, members...)
		if less > 0 { // One of them may stay, which costs no bytes.
			c.cpus, c.bytes = (c.cpus-less)/g.unit*g.unit, 0
		}
		if len(members) <= g.most && len(all) < mostSets && g.better(c.cpus, c.bytes, len(members)) && g.fits(at, c) {
			all = append(all, place{c, at})
		}
	}
	wants := func(i int) int {
		most := int64(0) // of a pool in parts
		for _, n := range g.pods[i].leaves.exclusive {
			most += n
		}
		return int(min(g.pods[i].claim.wants[0], most))
	}
	for at := range g.bounds.ids {
		on := func(i int) bool { return g.pods[i].leaves.exclusive[at] > 0 }
		for i := range g.pods {
			if g.cut = g.cut || g.stopped(); g.cut {
				return
			}
			if !on(i) {
				continue
			}
			add(at, 0, i)
			add(at, wants(i), i) // It may stay, and need less than it has.
			for k := range g.pods {
				if k == i || on(k) && k < i {
					continue
				}
				add(at, 0, i, k)
				add(at, wants(k), i, k) // It may move to the NUMA node that the other one leaves.
				if on(k) {
					add(at, wants(i), i, k)
				}
				for j := k + 1; on(k) && j < len(g.pods); j++ {
					if on(j) {
						add(at, 0, i, k, j)
					}
				}
			}
		}
	}
	g.cut = g.cut || len(all) == mostSets
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.cpus, a.cpus), cmp.Compare(a.bytes, b.bytes), cmp.Compare(len(a.members), len(b.members)))
	})
	for _, p := range all {
		if g.cut {
			return
		}
		if g.better(p.cpus, p.bytes, len(p.members)) {
			g.leave(p.at, p.group)
		}
	}
}

// fits reports whether, counting CPUs only, each pod of a group that must be on one NUMA node has
// room on some NUMA node.
func (g *gather) fits(at int, c group) bool {
	var elsewhere int64
	room := make([]int64, len(g.bounds.ids))
	for to := range room {
		room[to] = g.bounds.free[to][0]
		for _, i := range c.members {
			room[to] += g.pods[i].leaves.frees[to][0]
		}
		if to != at {
			elsewhere += room[to]
		}
	}
	for _, i := range c.members {
		wants := g.pods[i].claim.wants[0]
		elsewhere -= wants
		fits := !g.pods[i].claim.together
		alone := g.pods[i].claim.alone[0]
		for to := range room {
			fits = fits || room[to] >= alone && (to != at || c.cpus+int(alone) <= int(room[at]))
		}
		if !fits {
			return false
		}
	}
	return elsewhere+room[at]-int64(c.cpus) >= 0
}

// leave plans a group that leaves a NUMA node, in every order that is tried, and keeps the result
// if it is the best one so far. It reports whether the group can leave.
func (g *gather) leave(at int, c group) bool {
	left := g.state
	for _, i := range c.members {
		left = left.Release(g.pods[i].grant.Pod.UID)
	}
	probe, on := g.probe(left, c.cpus)
	if probe != nil && on != g.bounds.ids[at] { // The pods may still take the place that the planner prefers.
		here := left.Machine().CPUsOf(mask.Of(g.bounds.ids[at]))
		probe, on = g.probe(keeping(left, &node.Grant{Pool: left.AvailableCPUs().Difference(here)}), c.cpus)
	}
	if probe == nil || on != g.bounds.ids[at] {
		return false
	}
	taken := keeping(left, probe.Grant)
	can := false
	for _, order := range g.sequences(c.members) {
		var moved []Move
		s, ok := taken, true
		for i := 0; i < len(order) && ok; i++ {
			s, moved, ok = g.another(s, &g.pods[order[i]], moved)
		}
		if !ok || len(moved) == 0 {
			continue
		}
		gain := Gain{Before: g.best.Before, After: Room{c.cpus, on}}
		for _, m := range moved {
			gain.Bytes += m.Bytes
		}
		if gain.Bytes > g.terms.Bytes || !g.carry(&gain, moved) {
			continue
		}
		can = true
		unsound := func(s *node.State) bool { return s.Check() != nil }
		if g.better(gain.After.CPUs, gain.Bytes, len(gain.Moves)) && !slices.ContainsFunc(gain.States, unsound) {
			g.best = gain
		}
	}
	return can
}

// keeping returns the state in which no other pod gets what is free of a grant.
func keeping(s *node.State, g *node.Grant) *node.State {
	return s.WithReservations(append(slices.Clip(s.Reservations()), node.Reservation{Grant: g}))
}

// sequences returns the orders in which the members of a group are planned: all orders for at most
// three members, otherwise the given order and its reverse.
func (g *gather) sequences(members []int) [][]int {
	if len(members) > 3 {
		reverse := slices.Clone(members)
		slices.Reverse(reverse)
		return [][]int{members, reverse}
	}
	all := [][]int{{}}
	for _, m := range members {
		var next [][]int
		for _, order := range all {
			for i := range len(order) + 1 {
				next = append(next, slices.Insert(slices.Clone(order), i, m))
			}
		}
		all = next
	}
	return all
}

// carry makes moves one after the other, each as soon as its place is free, and checks what was
// gained. That is the proof of the gain.
func (g *gather) carry(gain *Gain, moved []Move) bool {
	slices.SortFunc(moved, func(a, b Move) int { return strings.Compare(a.From.Pod.UID, b.From.Pod.UID) })
	s := g.state
	for len(moved) > 0 {
		at := slices.IndexFunc(moved, func(m Move) bool {
			next, err := g.move(s, m.To)
			if err == nil {
				s = next
			}
			return err == nil
		})
		if at < 0 {
			return false // They wait for each other.
		}
		gain.Moves, gain.States = append(gain.Moves, moved[at]), append(gain.States, s)
		moved = slices.Delete(moved, at, at+1)
	}
	if p, on := g.probe(s, gain.After.CPUs); p == nil || on != gain.After.Node {
		return false
	}
	if g.mostFree(s) > gain.After.CPUs { // A part of a pod stayed, and needs less than was counted.
		gain.After = g.largest(s)
	}
	return true
}
