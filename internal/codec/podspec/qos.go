package podspec

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/request"
)

// qosOf returns the QoS class that the managers use: the one in the status if there is one,
// otherwise the one that follows from the spec (R-DEM-10 to R-DEM-14).
func qosOf(pod *v1.Pod, g Gates) (request.QoS, error) {
	switch pod.Status.QOSClass {
	case "":
	case v1.PodQOSGuaranteed:
		return request.Guaranteed, nil
	case v1.PodQOSBurstable:
		return request.Burstable, nil
	case v1.PodQOSBestEffort:
		return request.BestEffort, nil
	default:
		return 0, fmt.Errorf("status.qosClass: %q: expected Guaranteed, Burstable or BestEffort", pod.Status.QOSClass)
	}
	requests, limits := v1.ResourceList{}, v1.ResourceList{}
	limited := true
	if r := pod.Spec.Resources; g.PodLevelResources && r != nil {
		addCounted(requests, r.Requests)
		addCounted(limits, r.Limits)
		limited = len(r.Limits) == 0 || len(limits) == 2
	} else {
		forEachContainer(pod, func(c *v1.Container, _ request.ContainerType) {
			addCounted(requests, c.Resources.Requests)
			if addCounted(limits, c.Resources.Limits) < 2 {
				limited = false
			}
		})
	}
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return request.BestEffort, nil
	case limited && maps.EqualFunc(requests, limits, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }):
		return request.Guaranteed, nil
	}
	return request.Burstable, nil
}

// StaleQoS reports whether the QoS class in the status of a pod differs from the class of its spec,
// because someone edited the manifest. follows is then the class of the spec. A pod can have two
// classes, with pod-level resources and without; StaleQoS accepts both.
func StaleQoS(pod *v1.Pod, g Gates) (follows request.QoS, stale bool) {
	has, err := qosOf(pod, g)
	if pod.Status.QOSClass == "" || err != nil {
		return has, false
	}
	fresh := *pod
	fresh.Status.QOSClass = ""
	for _, levels := range []bool{!g.PodLevelResources, g.PodLevelResources} {
		other := g
		other.PodLevelResources = levels
		if follows, err = qosOf(&fresh, other); err != nil || follows == has {
			return has, false
		}
	}
	return follows, true
}

// addCounted adds to sum the amounts that count for the QoS class, which are cpu and memory above
// zero (R-DEM-12). It returns how many of the two the list has.
func addCounted(sum, list v1.ResourceList) int {
	n := 0
	for _, name := range []v1.ResourceName{v1.ResourceCPU, memory} {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			addTo(sum, name, q)
			n++
		}
	}
	return n
}
