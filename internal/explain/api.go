package explain

import (
	"fmt"
	"math"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// AgainstAPI describes the rule of the API that the amounts of a pod break, so that no API server
// would accept them. It returns the zero value if they break none. It checks only what a proposal
// can change: whether the budget of a Guaranteed pod has room for its containers (R-DEM-94 to
// R-DEM-96). Everything else remains valid, because requests and limits change together.
func AgainstAPI(pod request.Pod) node.Why {
	if pod.Kind != request.PodLevel || pod.QoS != request.Guaranteed {
		return node.Why{}
	}
	if why := againstBudget(pod, request.CPU, pod.BudgetCPUMilli); why.Text != "" {
		return why
	}
	for _, b := range pod.BudgetMemory {
		if why := againstBudget(pod, b.Resource, b.Value); why.Text != "" {
			return why
		}
	}
	return node.Why{}
}

// againstBudget compares the containers with the pod-level request, which is also the limit of a
// Guaranteed pod. Without a pod-level request, there is nothing to compare.
func againstBudget(pod request.Pod, resource string, budget int64) node.Why {
	if budget <= 0 {
		return node.Why{}
	}
	switch together, alone := pieces(pod, resource).above(budget, math.MaxInt64); {
	case together:
		return node.Why{Text: fmt.Sprintf("the containers request more %s together than the pod", resource), Rule: "R-DEM-94"}
	case alone >= 0:
		return node.Why{Text: fmt.Sprintf("the %s limit of container %s is above the pod's", resource, pod.Containers[alone].Name), Rule: "R-DEM-96"}
	}
	return node.Why{}
}
