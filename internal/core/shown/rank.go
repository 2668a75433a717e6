package shown

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Origin is the source from which a grant is known.
type Origin string

// The origins of grants.
const (
	Published   Origin = "published"   // in the PaddockNode
	Annotated   Origin = "annotated"   // in the annotation of a bound pod
	Reserved    Origin = "reserved"    // planned for a pod that is about to be bound
	Provisional Origin = "provisional" // planned for a bound pod without a grant
)

// Known is a known grant of a pod on a node.
type Known struct {
	Origin Origin
	// Bound is true if the pod is bound to the node and has not ended.
	Bound bool
	Grant *node.Grant
}

// rank orders grants that may contradict each other. Of two such grants, the first is kept. The
// published grant of a pod that is bound to the node is what the pod has. The published grant of
// another pod may be outdated: the pod may have ended, and the next pod may have got its CPUs. If
// the pod has not ended, it is a static pod that is not shown yet or a pod that was deleted by
// force. Such a pod keeps its CPUs: its grant counts unless it contradicts another one. In that
// case the node rejects the pod with the other grant, or plans it again, and publishes the result.
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

// Settle sorts the known grants of a node's pods by rank and then in the order in which they were
// decided. node.Adopt keeps the first of two grants that contradict each other. The returned grants
// are copies whose sequence is their position. Everyone who builds a state from objects must use
// Settle, so that the scheduler and the fleet agree about who has a CPU.
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
