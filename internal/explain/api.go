package explain

import (
	"fmt"
	"math"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// AgainstAPI describes the rule of the API that the amounts of a pod break, so that no API server
// would take them; zero: none. Only what a proposal can change is looked at: whether a Guaranteed
// pod's budget has room for its containers (R-DEM-94 to R-DEM-96). Everything else is valid after
// the change if it was valid before, as requests and limits change together.
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

// againstBudget compares with the pod-level request, which is the limit of a Guaranteed pod.
// Without one there is nothing to compare with.
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
