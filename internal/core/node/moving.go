package node

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// MoveStep is the step that a move has reached.
type MoveStep int

// The steps (R-MOV-8). In each of them, both places are assigned to the containers.
const (
	// MoveWidened means that the containers run on the CPUs of the old place, with the memory nodes
	// of both places.
	MoveWidened MoveStep = iota // widened
	// MoveSwitched means that the CPUs are those of the new place.
	MoveSwitched // switched
	// MoveNarrowed means that the memory nodes are those of the new place, too.
	MoveNarrowed // narrowed
	// MoveReturned means that the move is given up. CPUs and memory nodes are those of the old
	// place.
	MoveReturned // returned
)

// BeginMove returns the state in which an existing pod has two places, its own and that of a
// Replan. No other pod gets any part of either until EndMove. The new place must be free now,
// beside the old one, or be the pod's own. It must not be reserved for another pod. The error wraps
// ErrInvariant. BeginMove also rejects a pod that has changed since the Replan.
func (s *State) BeginMove(to *Grant) (*State, error) {
	old, known := s.Grant(to.Pod.UID)
	if !known {
		return nil, broken("pod %s is not on the node and cannot be moved", to.Pod.ID())
	}
	if what := changed(old, to); what != "" {
		return nil, broken("pod %s cannot be moved: %s", to.Pod.ID(), what)
	}
	place := *to
	place.Pod, place.Sequence, place.Resized, place.Moving = old.Pod, old.Sequence, old.Resized, nil
	if err := s.checkGrant(&place, s.FreeCPUs().Union(old.CPUs())); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), err)
	}
	g := *old
	g.Moving = &place
	o := s.forMove(to.Pod.UID)
	if err := o.keptFrom(place.CPUs()); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), err)
	}
	if _, err := takeClasses(returnClasses(o.caches, old), &g); err != nil {
		return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), broken("%w", err))
	}
	usage := o.usage
	for _, b := range g.Charged()[len(old.Charged()):] {
		if b.Size > 0 && !usage.Fits(b.Nodes, request.Amounts{{Resource: b.Type, Value: b.Size}}) {
			return nil, fmt.Errorf("pod %s: %w", to.Pod.ID(), broken("%s on %s has no room beside the old place", request.Words(b.Type, b.Size), b.Nodes.Text()))
		}
		usage = usage.Charge([]memory.Block{b}, nil)
	}
	n := s.next()
	g.Resized = n.generation
	n.usage = o.without(ledger{usage: usage}).usage
	n.caches = exchangeClasses(s.caches, old, &g)
	n.unassigned = s.unassigned.Difference(place.CPUs())
	n.grants = s.grants.with(&g)
	return n, nil
}

// changed describes why a pod cannot be moved to a place that was planned before. It returns "" if
// it can.
func changed(old, to *Grant) string {
	switch {
	case old.Moving != nil:
		return "it is being moved already"
	case !old.Pod.Equal(to.Pod) || len(old.Containers) != len(to.Containers):
		return "its request is another one than when the move was planned"
	}
	for i := range old.Containers {
		if old.Containers[i].Removed != to.Containers[i].Removed {
			return "container " + old.Pod.Containers[i].Name + " was removed since the move was planned"
		}
	}
	return ""
}

// EndMove returns the state in which a pod that is being moved has one place again: the new one if
// done is set, otherwise the old one. A pod that is not being moved changes nothing.
func (s *State) EndMove(uid string, done bool) *State {
	old, known := s.Grant(uid)
	if !known || old.Moving == nil {
		return s
	}
	g := *old
	if done {
		g = *old.Moving
	}
	g.Moving = nil
	n := s.replace(old, &g)
	g.Resized = n.generation
	return n
}

// During returns the state in which a pod that is being moved is in a step of the move. Callers
// compare running containers with it. The assignments are the same in all steps. A pod that is not
// being moved changes nothing. The state is not for planning.
func (s *State) During(uid string, step MoveStep) *State {
	old, known := s.Grant(uid)
	if !known || old.Moving == nil || step == MoveWidened {
		return s
	}
	g, other := *old, *old.Moving
	if step != MoveReturned {
		g, other = other, g
		g.Resized = other.Resized
	}
	if step != MoveSwitched { // Of the other place, the pod may use only the CPUs.
		other.Containers = slices.Clone(other.Containers)
		for i := range other.Containers {
			other.Containers[i].MemoryNodes = g.Containers[i].MemoryNodes
		}
	}
	other.Moving = nil
	g.Moving = &other
	n := *s
	n.grants = s.grants.with(&g)
	return &n
}

// Staying returns the grant of a pod that is being moved without the new place.
func (g *Grant) Staying() *Grant {
	stays := *g
	stays.Moving = nil
	return &stays
}

// bothMems returns the memory nodes of container i in both places of a pod that is being moved. A
// container that is not pinned in its present place stays unpinned, and one that is not pinned in
// the new place keeps its memory nodes.
func (g *Grant) bothMems(i int) mask.Mask {
	own, other := g.Containers[i].MemoryNodes, g.Moving.Containers[i].MemoryNodes
	if own.IsEmpty() || other.IsEmpty() {
		return own
	}
	return own | other
}

// beyond returns the blocks of the new place that the old one does not have.
func (g *Grant) beyond() []memory.Block {
	left := slices.Clone(g.charged())
	var more []memory.Block
	for _, b := range g.Moving.charged() {
		if i := slices.Index(left, b); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		more = append(more, b)
	}
	return more
}

// eachPlace returns the grant after f has changed each of its places.
func (g *Grant) eachPlace(f func(*Grant)) *Grant {
	next := *g
	f(&next)
	if g.Moving != nil {
		place := *g.Moving
		f(&place)
		next.Moving = &place
	}
	return &next
}
