package moves

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Terms limits which moves are allowed.
type Terms struct {
	// Bytes is the maximum amount of memory, in bytes, that may move between NUMA nodes in total.
	Bytes int64
	// Consent returns how far a pod may be moved. If nil, the pod's request decides.
	Consent func(*node.Grant) request.Consent
	// Pods is the maximum number of pods that may move, at most node.MaxMoves. Zero means
	// node.MaxMoves.
	Pods int
	// BothPlaces allows only moves during which the pod can have both places, which are the moves
	// that a node carries out.
	BothPlaces bool
	// Plans is the maximum number of plans of the search. Zero means 20,000: at about 5 µs per
	// plan, 100 ms.
	Plans int
	// Fits reports whether the node takes the requests of one more pod of that many CPUs, apart
	// from where they are. If nil, it does.
	Fits func(cpus int) bool
	// Stop ends the search when it returns true. If nil, nothing stops the search.
	Stop func() bool
}

// TermsOf returns the terms of a node that carries moves out.
func TermsOf(p node.MovePolicy) Terms {
	return Terms{Pods: p.Pods, Bytes: p.Bytes, BothPlaces: true, Consent: func(g *node.Grant) request.Consent {
		consent := g.Pod.Moves
		if p.All && consent == request.NoMoves {
			consent = request.MoveCPUs
		}
		if p.Bytes == 0 {
			consent = min(consent, request.MoveCPUs)
		}
		return consent
	}}
}

// Move takes a pod to another place.
type Move struct {
	From, To *node.Grant
	// Bytes is the memory, in bytes, that gets other NUMA nodes. Across is set if CPUs or memory
	// get other NUMA nodes.
	Bytes  int64
	Across bool
}

// Set is a set of moves after which the pod fits.
type Set struct {
	// Moves are in an order in which each place is free when its move begins.
	Moves []Move
	Bytes int64
	// After is the node after the moves. Plan is the plan of the pod on that node.
	After *node.State
	Plan  *node.Plan
}

// Found is the answer of a search.
type Found struct {
	// Set is the cheapest set, or nil if there is none. The cheapest set moves the fewest bytes
	// between NUMA nodes and, among equal ones, the fewest pods.
	Set *Set
	// Plans is the number of plans that were made. Cut is set if the search ended before it had
	// tried everything.
	Plans int
	Cut   bool
}

// maxPlans is the default of Terms.Plans.
const maxPlans = 20_000

// Find looks for the cheapest set of moves after which a pod fits that the state rejects, or aligns
// less than its policy prefers. A pod that is known, or that fits as preferred, needs none.
func Find(s *node.State, pod request.Pod, terms Terms) Found {
	x := &search{state: s, pod: pod, terms: terms}
	now := x.plan(s, pod)
	if !Wanted(now) {
		return Found{Plans: x.plans}
	}
	x.better = now.Grant != nil
	x.bounds = newBounds(s)
	policy := s.Policy()
	x.claim = x.bounds.claimOf(&pod, x.better || policy.Strict())
	x.collect()
	for size := 1; size <= cmp.Or(terms.Pods, node.MaxMoves) && !x.cut; size++ {
		for _, c := range x.sets(size) {
			if x.best != nil && c.least >= x.best.Bytes || x.cut {
				break
			}
			x.try(c)
		}
	}
	return Found{Set: x.best, Plans: x.plans, Cut: x.cut}
}

// Wanted reports whether a pod with that plan could need moves: it is rejected, or not aligned as
// its policy prefers.
func Wanted(p *node.Plan) bool {
	switch p.Trace.Cause {
	case rejection.ResourcesOff, rejection.CacheUnclear, rejection.ContainersAboveBound, rejection.GivenApart, rejection.PoolEmpty, rejection.PoolNotAligned, rejection.PoolOverdrawn, rejection.PartialCores, rejection.NoMemoryType:
		return false // These depend only on the pod, its policy and the machine.
	default:
		return !p.Known && !isPreferred(p)
	}
}

// search is the state of one search.
type search struct {
	state *node.State
	pod   request.Pod
	terms Terms
	// better is set if the pod is admitted without moves, and the search is for a better alignment.
	better bool
	pods   []candidate
	bounds *bounds
	claim  claim // of the pod that should fit
	best   *Set
	plans  int
	cut    bool
}

// candidate is a pod that may be moved.
type candidate struct {
	grant   *node.Grant
	consent request.Consent
	claim   claim
	leaves  leaving
}

// set is a set of candidates, by index, and the least that moving them costs.
type set struct {
	members []int
	least   int64
}

func (x *search) plan(s *node.State, pod request.Pod) *node.Plan {
	x.plans++
	x.cut = x.cut || x.plans >= cmp.Or(x.terms.Plans, maxPlans) || x.stopped()
	return s.Plan(pod)
}

// stopped reports whether the search has to end.
func (x *search) stopped() bool { return x.terms.Stop != nil && x.terms.Stop() }

// fits reports whether a plan is a result of the search.
func (x *search) fits(p *node.Plan) bool {
	return p.Rejection == nil && (!x.better || isPreferred(p))
}

func isPreferred(p *node.Plan) bool {
	return p.Rejection == nil && !slices.ContainsFunc(p.Trace.Alignments, func(a node.Alignment) bool { return !a.Choice.Preferred })
}

// collect finds the pods that may be moved. A pod with devices does not move, because its devices
// do not. A pod whose request is estimated does not move, because it is not known what it would
// need.
func (x *search) collect() {
	for g := range x.state.AllGrants() {
		consent := g.Pod.Moves
		if x.terms.Consent != nil {
			consent = x.terms.Consent(g)
		}
		if consent <= request.NoMoves || g.Moving != nil || g.Pod.Estimated || len(g.Devices()) > 0 || g.CPUs().IsEmpty() && len(g.Charged()) == 0 {
			continue
		}
		c := candidate{grant: g, consent: consent, claim: x.bounds.claimOfGrant(g)}
		c.leaves = x.bounds.leavingOf(g, consent)
		if policy := x.state.Policy(); policy.Scope == node.ContainerScope {
			c.leaves.least = memoryOf(c.claim.alone)
		}
		x.pods = append(x.pods, c)
	}
}

// sets returns the sets of a size that the bound allows, the cheapest first.
func (x *search) sets(size int) []set {
	var all []set
	add := func(members ...int) {
		if least, ok := x.least(members); ok && least <= x.terms.Bytes {
			all = append(all, set{slices.Clone(members), least})
		}
	}
	for i := range x.pods {
		if size == 1 {
			add(i)
			continue
		}
		for k := range i {
			add(k, i)
		}
	}
	slices.SortStableFunc(all, func(a, b set) int { return cmp.Compare(a.least, b.least) })
	return all
}

// orders returns the orders in which the new pod, which is number 0, and one or two others can be
// planned.
func orders(others int) [][]int {
	if others == 1 {
		return [][]int{{0, 1}, {1, 0}}
	}
	return [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}}
}

// try plans a set in every order, and keeps the result if it is the best one so far.
func (x *search) try(c set) {
	left := x.state
	for _, i := range c.members {
		left = left.Release(x.pods[i].grant.Pod.UID)
	}
	for _, order := range orders(len(c.members)) {
		if x.cut {
			return
		}
		moved, ok := x.replan(left, c.members, order)
		if !ok {
			continue
		}
		if found := x.carryOut(moved); found != nil && (x.best == nil || cmp.Or(cmp.Compare(found.Bytes, x.best.Bytes), cmp.Compare(len(found.Moves), len(x.best.Moves))) < 0) {
			x.best = found
		}
	}
}

// replan plans the new pod and the members of a set in an order. It returns the moves of the
// members that get another place.
func (x *search) replan(s *node.State, members, order []int) ([]Move, bool) {
	var moved []Move
	for _, k := range order {
		var ok bool
		if k > 0 {
			if s, moved, ok = x.another(s, &x.pods[members[k-1]], moved); !ok {
				return nil, false
			}
			continue
		}
		p := x.plan(s, x.pod)
		if !x.fits(p) {
			return nil, false
		}
		var err error
		if s, err = s.Apply(p); err != nil {
			return nil, false
		}
	}
	slices.SortFunc(moved, func(a, b Move) int { return strings.Compare(a.From.Pod.UID, b.From.Pod.UID) })
	return moved, len(moved) > 0
}

// another plans a pod that left its place, and adds the move if the pod gets another place. The pod
// must not be aligned less than it is.
func (x *search) another(s *node.State, c *candidate, moved []Move) (*node.State, []Move, bool) {
	x.plans++
	p := s.Replan(c.grant)
	if p.Rejection != nil || !asAligned(c.grant, p.Grant) {
		return nil, nil, false
	}
	m := moveOf(s, c.grant, p.Grant)
	if m.Across && c.consent < request.MoveMemory {
		return nil, nil, false
	}
	if !samePlace(c.grant, p.Grant) {
		moved = append(moved, m)
	}
	next, err := s.Apply(p)
	return next, moved, err == nil
}

// carryOut makes the moves one after the other, in an order in which every place is free, and then
// plans the pod. That is the proof of the set. It returns nil if there is none.
func (x *search) carryOut(moved []Move) *Set {
	found := &Set{Moves: moved}
	for _, m := range moved {
		found.Bytes += m.Bytes
	}
	if found.Bytes > x.terms.Bytes {
		return nil
	}
	for range len(moved) {
		s, err := x.state, error(nil)
		for i := 0; i < len(found.Moves) && err == nil; i++ {
			s, err = x.move(s, found.Moves[i].To)
		}
		if err == nil {
			if found.Plan = x.plan(s, x.pod); x.fits(found.Plan) {
				found.After = s
				return found
			}
		}
		found.Moves = slices.Clone(found.Moves)
		slices.Reverse(found.Moves)
	}
	return nil
}

// move returns the state after one move.
func (x *search) move(s *node.State, to *node.Grant) (*node.State, error) {
	if !x.terms.BothPlaces {
		return s.Move(to)
	}
	s, err := s.BeginMove(to)
	if err != nil {
		return nil, err
	}
	return s.EndMove(to.Pod.UID, true), nil
}

// asAligned reports whether every container is aligned at the new place if it was at the old one.
func asAligned(from, to *node.Grant) bool {
	for i := range from.Containers {
		if from.Containers[i].Affinity.Preferred && !to.Containers[i].Affinity.Preferred && !from.Containers[i].Removed {
			return false
		}
	}
	return true
}

func samePlace(a, b *node.Grant) bool {
	return a.Pool.Equal(b.Pool) && slices.EqualFunc(a.Containers, b.Containers, func(c, d node.ContainerGrant) bool {
		return c.CPUs.Equal(d.CPUs) && c.MemoryNodes == d.MemoryNodes
	})
}

// Between returns the move of a pod to a place that another program asks for. It returns an error
// if the rules would not give the pod that place if it came now, if the pod would be aligned less
// than it is, or if the pod is at that place already.
func Between(s *node.State, from, to *node.Grant) (Move, error) {
	if len(to.Containers) != len(from.Containers) {
		return Move{}, fmt.Errorf("the requested assignment has %d containers: expected the pod's %d", len(to.Containers), len(from.Containers))
	}
	left, full := s.Release(from.Pod.UID), *to
	full.Containers = slices.Clone(to.Containers)
	for i := range full.Containers { // A plan has what an init container gave back.
		c, asks := &full.Containers[i], &from.Pod.Containers[i]
		if len(c.Memory) > 0 || c.MemoryNodes.IsEmpty() || asks.Type != request.Init {
			continue
		}
		for _, a := range asks.Memory {
			c.Memory = append(c.Memory, memory.Block{Type: a.Resource, Size: a.Value, Nodes: c.MemoryNodes})
		}
	}
	p, err := left.PlanGrant(from.Pod, &full)
	if err != nil {
		return Move{}, err
	}
	if p = left.ReplanAt(from, p); p.Rejection != nil {
		return Move{}, p.Rejection
	}
	placed := p.Grant
	switch {
	case samePlace(from, placed):
		return Move{}, errors.New("it already has these CPUs and this memory")
	case !asAligned(from, placed):
		return Move{}, errors.New("the move would make it less aligned")
	}
	return moveOf(s, from, placed), nil
}

// moveOf returns the move, with what it takes between NUMA nodes.
func moveOf(s *node.State, from, to *node.Grant) Move {
	m := Move{From: from, To: to, Across: s.Machine().NodesOf(from.CPUs()) != s.Machine().NodesOf(to.CPUs())}
	if len(from.PoolMemory) > 0 && len(to.PoolMemory) > 0 {
		if from.PoolMemory[0].Nodes != to.PoolMemory[0].Nodes {
			for _, b := range to.PoolMemory {
				m.Bytes += b.Size
			}
			m.Across = true
		}
		return m
	}
	for i := range to.Containers {
		if from.Containers[i].MemoryNodes == to.Containers[i].MemoryNodes {
			continue
		}
		m.Across = true
		for _, b := range to.Containers[i].Memory {
			m.Bytes += b.Size
		}
	}
	return m
}
