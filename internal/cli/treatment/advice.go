package treatment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Advise looks for pods to delete so that a larger pod fits on a node whose kubelet decides: a
// kubelet moves no running pod. pods are those of the node. Static pods and pods of DaemonSets
// stay, because they come again at once. The search ends with the context; the error is then its
// cause.
func Advise(ctx context.Context, s *node.State, pods inputs.Roster, wish explain.Wish) (view.Defragmentation, error) {
	advice := moves.Advise(s, wish.Moves, moves.Terms{
		Plans: explain.DefragPlans, Stop: func() bool { return ctx.Err() != nil },
		Consent: func(g *node.Grant) request.Consent {
			pod := pods[g.Pod.UID]
			if pod == nil || podspec.IsStatic(pod) {
				return request.NeverMoves
			}
			if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
				return request.NeverMoves
			}
			return request.MoveMemory
		},
	})
	out := view.Defragmentation{Advice: &view.Advice{Delete: []view.Deletion{}}, Defragmentation: explain.Defragmentation{
		Before: explain.Room(advice.Before), After: explain.Room(advice.After), Moves: []explain.Step{}, Cut: advice.Cut,
	}}
	for _, d := range advice.Deleted {
		deletion := view.DeletionOf(s.Machine(), d)
		deletion.Unowned = metav1.GetControllerOf(pods[d.From.Pod.UID]) == nil
		out.Advice.Delete = append(out.Advice.Delete, deletion)
	}
	switch policy := s.Policy(); {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case len(advice.Deleted) > 0:
	case !policy.StaticCPU:
		out.Reason = "cpuManagerPolicy none assigns no CPUs"
	case policy.Topology == node.TopologyNone:
		out.Reason = "topologyManagerPolicy none aligns no pod, so a pod fits wherever CPUs are free"
	default:
		out.Reason = "no deletion of up to three pods makes room for a larger pod beside which they fit again"
	}
	return out, nil
}
