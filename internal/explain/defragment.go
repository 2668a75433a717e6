package explain

import (
	"context"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Defragmentation describes how much larger a pod can be after moves of running pods.
type Defragmentation struct {
	// Before and After are the sizes of the largest Guaranteed pod with one container that fits on
	// one NUMA node.
	Before Room `json:"before"`
	After  Room `json:"after"`
	// Moves are in an order in which each destination is free when the pod moves there.
	Moves []Step `json:"moves"`
	// Bytes is the amount of memory that moves to other NUMA nodes.
	Bytes int64 `json:"bytes"`
	// All is the largest pod if every pod consented to moves. It is nil if that does not allow a
	// larger pod.
	All *Room `json:"withConsentOfAll,omitempty"`
	// Cut reports that the search ended before it checked everything.
	Cut bool `json:"cut,omitempty"`
	// Reason describes why no move helps.
	Reason string `json:"reason,omitempty"`
}

// Room is a number of CPUs on a NUMA node.
type Room struct {
	CPUs int `json:"cpus"`
	Node int `json:"numaNode"`
}

// Step is a move and the largest pod that fits after it.
type Step struct {
	PodMove
	Largest Room `json:"largest"`
}

// Wish limits what a defragmentation may do.
type Wish struct {
	// Moves is the number of pods that may move, and Bytes the amount of memory.
	Moves int
	Bytes int64
	// All also moves pods that do not consent.
	All bool
}

// MaxDefragMoves is the largest allowed number of moves. A search for that many on a node with 200
// pods takes less than a second.
const MaxDefragMoves = 16

// DefragPlans bounds the plans of a search for moves. They take about 0.3 s.
const DefragPlans = 20_000

// Defragment looks for moves after which a larger pod fits. It also returns the node after each
// move. The search ends with the context; the error is then its cause.
func Defragment(ctx context.Context, s *node.State, wish Wish) (Defragmentation, []*node.State, error) {
	terms := moves.Terms{Bytes: wish.Bytes, BothPlaces: true, Plans: DefragPlans, Stop: func() bool { return ctx.Err() != nil }}
	all := terms
	all.Consent = unlessNever
	if wish.All {
		terms = all
	}
	gain := moves.Defragment(s, wish.Moves, terms)
	d := Defragmentation{
		Before: Room(gain.Before), After: Room(gain.After), Moves: []Step{}, Bytes: gain.Bytes, Cut: gain.Cut,
	}
	for i, m := range gain.Moves {
		d.Moves = append(d.Moves, Step{podMove(s.Machine(), m), Room(moves.Largest(gain.States[i]))})
	}
	if !wish.All {
		if most := moves.Defragment(s, wish.Moves, all); most.After.CPUs > gain.After.CPUs {
			room := Room(most.After)
			d.All = &room
		}
	}
	policy := s.Policy()
	switch {
	case ctx.Err() != nil:
		return d, nil, context.Cause(ctx)
	case len(gain.Moves) > 0:
	case !policy.StaticCPU:
		d.Reason = "cpuManagerPolicy none assigns no CPUs, so no pod can be moved"
	case policy.Topology == node.TopologyNone:
		d.Reason = "topologyManagerPolicy none aligns no pod, so a pod fits wherever CPUs are free"
	case s.NumGrants() == 0:
		d.Reason = "no pod is on the node"
	case d.All != nil:
		d.Reason = `no move of pods that consent makes room for a larger one; a pod consents by the annotation paddock-project.github.io/moves: anywhere`
	default:
		d.Reason = "no move makes room for a larger pod"
	}
	return d, gain.States, nil
}
