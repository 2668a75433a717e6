package cluster

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Concerns reports whether a pod requests anything that a node may assign to it exclusively under
// some policy, or for which it may reject it. The planner has nothing to decide about other pods,
// and every node takes them.
func Concerns(pod *request.Pod) bool {
	if pod.Kind == request.Unmanaged || pod.BudgetCPUs > 0 || len(pod.BudgetMemory) > 0 || !pod.PoolCache.IsZero() || pod.CacheUnclear != "" {
		return true
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.CPUs > 0 || len(c.Memory) > 0 || len(c.Devices) > 0 || len(c.Given) > 0 || !c.Cache.IsZero() {
			return true
		}
	}
	return false
}

// Read returns a pod as nodes with these feature gates read it. The error names the pod and the
// field.
func Read(pod *v1.Pod, gates podspec.Gates) (fleet.Pod, error) {
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		return fleet.Pod{}, err
	}
	out := fleet.Pod{Pod: asked, Asks: fleet.Amounts{Pods: 1}}
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources}) {
		switch name {
		case v1.ResourceCPU:
			out.Asks.Milli = q.MilliValue()
		case v1.ResourceMemory:
			out.Asks.Memory = q.Value()
		case v1.ResourceEphemeralStorage:
		default:
			if q.Sign() > 0 {
				out.Asks.Others = out.Asks.Others.With(string(name), q.Value())
			}
		}
	}
	return out, nil
}
