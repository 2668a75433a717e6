package treatment

import (
	"cmp"
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Advise looks for pods to delete so that a larger pod fits on a node whose kubelet decides: a
// kubelet moves no running pod. pods are those of the node, whose requests the kubelet compares
// with what the Node has; it may be nil. Pods that would come back at once stay, and so do virtual
// machines. The search ends with the context; the error is then its cause.
func Advise(ctx context.Context, s *node.State, pods inputs.Roster, o *v1.Node, wish explain.Wish) (view.Defragmentation, error) {
	most := mostRequested(pods, o, podspec.GatesOf(s.Policy()))
	advice := moves.Advise(s, wish.Moves, moves.Terms{
		Plans: explain.DefragPlans, Stop: func() bool { return ctx.Err() != nil },
		Fits: func(cpus int) bool { return int64(cpus) <= most },
		Consent: func(g *node.Grant) request.Consent {
			pod := pods[g.Pod.UID]
			if pod == nil || inputs.ReturnsAtOnce(pod) || podspec.IsVirtualMachine(pod) {
				return request.NeverMoves
			}
			return request.MoveMemory
		},
	})
	out := view.Defragmentation{Advice: &view.Advice{Delete: []view.Deletion{}}, Defragmentation: explain.Defragmentation{
		Before: explain.Room(advice.Before), After: explain.Room(advice.After), Moves: []explain.Step{}, Cut: advice.Cut,
	}}
	name := ""
	if o != nil {
		name = o.Name
	}
	for _, d := range advice.Deleted {
		deletion := view.DeletionOf(s.Machine(), d)
		pod := pods[d.From.Pod.UID]
		deletion.Recreated = podspec.RecreationOf(pod)
		out.Advice.Delete = append(out.Advice.Delete, deletion)
		name = cmp.Or(name, pod.Spec.NodeName)
	}
	out.Advice.Order(name)
	switch policy := s.Policy(); {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case len(advice.Deleted) > 0:
	case !policy.StaticCPU:
		out.Reason = "cpuManagerPolicy none assigns no CPUs"
	case policy.Topology == node.TopologyNone:
		out.Reason = "topologyManagerPolicy none aligns no pod, so a pod fits wherever CPUs are free"
	case int64(advice.Before.CPUs) >= most:
		out.Reason = fmt.Sprintf("the requests of the pods leave %s of those that the Node has for pods, wherever the pods run", view.Count(int(max(0, most)), "CPU"))
	default:
		out.Reason = "no deletion of up to three pods makes room for a larger pod beside which they fit again"
	}
	return out, nil
}

// mostRequested returns the most CPUs that one more pod of a node can request before OutOf rejects
// it.
func mostRequested(pods inputs.Roster, o *v1.Node, gates podspec.Gates) int64 {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "largest"}}}}
	pod.UID = "largest"
	others := RequestsOf(pods, gates)
	if others.OutOf(pod, o) != nil { // There is no place for a further pod, whatever it requests.
		return 0
	}
	left, known := others.Left(pod, o)[string(v1.ResourceCPU)]
	if !known {
		return math.MaxInt64
	}
	return left
}
