package fleetsource

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Origin is where the grant of a pod on a node is known from.
type Origin string

// The origins of grants.
const (
	Published   Origin = "published"   // in the PaddockNode
	Annotated   Origin = "annotated"   // in the annotation of a bound pod
	Reserved    Origin = "reserved"    // planned for a pod that is about to be bound
	Provisional Origin = "provisional" // planned for a bound pod without a grant
)

// Known is what is known of a pod on a node.
type Known struct {
	Origin Origin
	// Bound: the pod is bound to the node, and has not ended.
	Bound bool
	Grant *node.Grant
}

// rank orders grants that may contradict each other; of those the first is kept. What a node
// published of a pod that is bound to it is what the pod has. What it published of another pod may
// be late: the pod may have ended since, and its CPUs may have been given to the next one. If it
// has not ended, it is a static pod that is not shown yet, or one that was deleted by force. Such a
// pod keeps its CPUs: its grant counts unless it contradicts another one, and then the node rejects
// the pod with the other one, or plans it again, and publishes that.
func (k Known) rank() int {
	switch {
	case k.Origin == Published && k.Bound:
		return 0
	case k.Origin == Annotated, k.Origin == Reserved:
		return 1
	case k.Origin == Published:
		return 2
	}
	return 3
}

// Settle puts what is known of a node's pods into the order in which node.Adopt keeps the first of
// two grants that contradict each other: by rank, and among equals as they were decided. The grants
// become copies with the sequence of their place. Whoever makes a state of objects does this, so
// that the scheduler and the fleet agree about who has a CPU.
func Settle(known []Known) []*node.Grant {
	slices.SortFunc(known, func(a, b Known) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Grant.Sequence, b.Grant.Sequence), strings.Compare(a.Grant.Pod.UID, b.Grant.Pod.UID))
	})
	grants := make([]*node.Grant, len(known))
	for i := range known {
		g := *known[i].Grant
		g.Sequence = uint64(i + 1)
		known[i].Grant, grants[i] = &g, &g
	}
	return grants
}
