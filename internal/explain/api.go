package explain

import (
	"fmt"
	"math"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/request"
)

// AgainstAPI says which rule of the API the amounts of a pod break, so that no API server would take
// them; empty: none. Only what a proposal can change is looked at: whether a Guaranteed pod's budget
// has room for its containers (R-DEM-94 to R-DEM-96). Everything else holds after the change if it
// held before, as requests and limits change together.
func AgainstAPI(pod request.Pod) string {
	if pod.Kind != request.PodLevel || pod.QoS != request.Guaranteed {
		return ""
	}
	if why := overBudget(pod, request.CPU, pod.BudgetCPUMilli, func(c request.Container) (requested, limit int64) { return c.CPURequest, c.CPULimit }); why != "" {
		return why
	}
	for _, b := range pod.BudgetMemory {
		why := overBudget(pod, b.Resource, b.Value, func(c request.Container) (requested, limit int64) {
			requested, _ = c.MemoryRequest.Get(b.Resource)
			limit, _ = c.MemoryLimit.Get(b.Resource)
			return requested, limit
		})
		if why != "" {
			return why
		}
	}
	return ""
}

// overBudget compares with the pod-level request, which is the limit of a Guaranteed pod. Without one
// there is nothing to compare with.
func overBudget(pod request.Pod, resource string, budget int64, of func(request.Container) (requested, limit int64)) string {
	if budget <= 0 {
		return ""
	}
	// So that sums stay numbers; no machine has a budget for so much.
	most := math.MaxInt64 / int64(len(pod.Containers)+1)
	together := layout.Budget(claims(pod, func(c request.Container) int64 { n, _ := of(c); return min(n, most) }))
	if together > budget {
		return fmt.Sprintf("the containers request more %s together than the pod (R-DEM-94)", resource)
	}
	for _, c := range pod.Containers {
		if _, limit := of(c); c.Lane == request.App && limit > budget {
			return fmt.Sprintf("the %s limit of container %s is above the pod's (R-DEM-96)", resource, c.Name)
		}
	}
	return ""
}
