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

// Gain is how much larger a pod can be after moves.
type Gain struct {
	// Before and After are the most CPUs that a Guaranteed pod of one container can get on one NUMA
	// node, which is Node.
	Before, After Room
	// Moves are in an order in which each place is free. States are the node after each of them.
	Moves  []Move
	States []*node.State
	// Bytes is the memory that gets other NUMA nodes.
	Bytes int64
	// Plans is how many plans were made. Cut reports that not everything was looked at.
	Plans int
	Cut   bool
}

// Room is how many CPUs a pod can get on a NUMA node.
type Room struct{ CPUs, Node int }

// probeMemory is what the probe asks for where memory is managed: as little as can be.
const probeMemory = 1 << 20

// mostSets bounds the sets that a count does not exclude: 200 pods on 8 NUMA nodes have about
// 60,000 sets of at most three on a NUMA node.
const mostSets = 100_000

// Defragment looks for moves, at most so many, after which the largest pod that fits on one NUMA
// node has the most CPUs. Of equal ones it takes those that move the fewest bytes between NUMA
// nodes, then the fewest pods. Pods move off a NUMA node, and they must consent to that. The
// planner chooses every place, and a pod stays as aligned as it is. Under topology policy none,
// which aligns nothing, no move gains anything, and neither without the static CPU policy.
//
// All sets of at most two pods are looked at in all orders, and of three pods on one NUMA node.
// Larger sets are built step by step, the largest pods first and then the cheapest first, so a
// better one can be missed. So it can where a pod is on several NUMA nodes, where one moves to the
// NUMA node that another one leaves, where only some containers of a pod leave, and under
// best-effort.
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

// Largest is the largest pod that fits on one NUMA node: a Guaranteed pod of one container.
func Largest(s *node.State) Room { return newGather(s, 0, Terms{}).largest(s) }

func newGather(s *node.State, most int, terms Terms) *gather {
	g := &gather{search: &search{state: s, terms: terms}, unit: 1, most: most}
	if s.Policy().CPU.FullPCPUsOnly {
		g.unit = max(1, s.Machine().CPUsPerCore())
	}
	return g
}

// group is a set of pods, by index, that leaves a NUMA node, the CPUs that are free there then, and
// the least that it costs.
type group struct {
	members []int
	cpus    int
	bytes   int64
}

// largest is the largest pod that fits on one NUMA node.
func (g *gather) largest(s *node.State) Room {
	if !s.Policy().StaticCPU {
		return Room{}
	}
	for n := g.mostFree(s); n > 0; n -= g.unit {
		if p, at := g.probe(s, n); p != nil {
			return Room{n, at}
		}
	}
	return Room{}
}

// mostFree is how many CPUs are free on a NUMA node at most, as many as a pod can ask for.
func (g *gather) mostFree(s *node.State) (most int) {
	for _, unit := range s.Machine().CPUNodes() {
		most = max(most, s.AvailableCPUs().IntersectionLen(unit.CPUs))
	}
	return most / g.unit * g.unit
}

// probe plans a pod of so many CPUs, and returns the NUMA node that has all of them. It is nil if
// there is none.
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

// group is the group of some members that leaves the NUMA node of an index.
func (g *gather) group(at int, members ...int) group {
	cpus, bytes := g.bounds.free[at][0], int64(0)
	for _, i := range members {
		cpus += g.pods[i].leaves.frees[at][0]
		if g.pods[i].leaves.home == at { // Another one may keep its memory.
			bytes += g.pods[i].leaves.bytes
		}
	}
	return group{slices.Clone(members), int(cpus) / g.unit * g.unit, bytes}
}

// better reports whether so many CPUs for so many bytes and moves may be better than the best so
// far.
func (g *gather) better(cpus int, bytes int64, moves int) bool {
	b := &g.best
	if cpus != b.After.CPUs || len(b.Moves) == 0 {
		return cpus > b.After.CPUs
	}
	return cmp.Or(cmp.Compare(bytes, b.Bytes), cmp.Compare(moves, len(b.Moves))) < 0
}

// grow adds one pod after the other to the group that leaves a NUMA node, as long as the group can
// leave.
func (g *gather) grow(at int) {
	var here []int
	for i := range g.pods {
		if g.pods[i].leaves.frees[at][0] > 0 {
			here = append(here, i)
		}
	}
	if all := g.group(at, here...); !g.better(all.cpus, 0, 1) {
		return
	}
	cpus := func(i int) int64 { return g.pods[i].leaves.frees[at][0] }
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

// exact looks at the sets of at most two pods, and of three pods on one NUMA node, the best first.
func (g *gather) exact() {
	type place struct {
		group
		at int
	}
	var all []place
	add := func(at, less int, members ...int) {
		c := g.group(at, members...)
		if less > 0 { // One of them may stay, for no bytes.
			c.cpus, c.bytes = (c.cpus-less)/g.unit*g.unit, 0
		}
		if len(members) <= g.most && len(all) < mostSets && g.better(c.cpus, c.bytes, len(members)) && g.fits(at, c) {
			all = append(all, place{c, at})
		}
	}
	wants := func(i int) int { return int(g.pods[i].claim.wants[0]) }
	for at := range g.bounds.ids {
		on := func(i int) bool { return g.pods[i].leaves.frees[at][0] > 0 }
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

// fits reports whether, by counting CPUs, each of a group that was on one NUMA node has room on
// another one.
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

// leave lets a group leave a NUMA node, in every order that is tried, and keeps the result if it is
// the best so far. It reports whether the group can leave.
func (g *gather) leave(at int, c group) bool {
	left := g.state
	for _, i := range c.members {
		left = left.Release(g.pods[i].grant.Pod.UID)
	}
	probe, on := g.probe(left, c.cpus)
	if probe != nil && on != g.bounds.ids[at] { // The pods may yet take the place that the planner prefers.
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

// keeping is the state in which no other pod gets what is free of a grant.
func keeping(s *node.State, g *node.Grant) *node.State {
	return s.WithReservations(append(slices.Clip(s.Reservations()), node.Reservation{Grant: g}))
}

// sequences are the orders in which the members of a group are planned: all for three and less,
// else as they are and the other way round.
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

// carry makes moves one after the other, each as soon as its place is free, and checks every state
// and what was gained: the proof.
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
	if g.mostFree(s) > gain.After.CPUs { // A part of a pod stayed, and needed less than what was counted.
		gain.After = g.largest(s)
	}
	return true
}
