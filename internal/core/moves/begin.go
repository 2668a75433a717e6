package moves

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Begin returns the state in which the first of some moves has begun, if all of them are possible,
// one after the other, and the pod then gets its place. If pod is nil, only the moves count.
func Begin(s *node.State, list []Move, pod *request.Pod, place *node.Grant) (*node.State, error) {
	begun, at := (*node.State)(nil), s
	for _, m := range list {
		next, err := at.BeginMove(m.To)
		if err != nil {
			return nil, err
		}
		if begun == nil {
			begun = next
		}
		at = next.EndMove(m.To.Pod.UID, true)
	}
	if pod != nil {
		if _, err := at.PlanGrant(*pod, place); err != nil {
			return nil, err
		}
	}
	return begun, nil
}
