package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/request"
)

// qosOf is the class that the managers go by: the one in the status if there is one,
// else the one that follows from the spec (R-DEM-10).
func qosOf(pod *v1.Pod, g Gates) (request.QoS, error) {
	switch pod.Status.QOSClass {
	case "":
		return computeQoS(pod, g), nil
	case v1.PodQOSGuaranteed:
		return request.Guaranteed, nil
	case v1.PodQOSBurstable:
		return request.Burstable, nil
	case v1.PodQOSBestEffort:
		return request.BestEffort, nil
	}
	return 0, fmt.Errorf("status.qosClass: %q is none of Guaranteed, Burstable and BestEffort", pod.Status.QOSClass)
}

// computeQoS follows R-DEM-11 to R-DEM-14.
func computeQoS(pod *v1.Pod, g Gates) request.QoS {
	requests, limits := v1.ResourceList{}, v1.ResourceList{}
	limited := true
	if r := pod.Spec.Resources; g.PodLevelResources && r != nil {
		addCounted(requests, r.Requests)
		addCounted(limits, r.Limits)
		limited = len(r.Limits) == 0 || len(limits) == 2
	} else {
		forEachContainer(pod, func(c *v1.Container, _ request.Lane) {
			addCounted(requests, c.Resources.Requests)
			if addCounted(limits, c.Resources.Limits) < 2 {
				limited = false
			}
		})
	}
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return request.BestEffort
	case limited && sameList(requests, limits):
		return request.Guaranteed
	}
	return request.Burstable
}

// addCounted adds to sum what counts for the QoS class, cpu and memory above zero
// (R-DEM-12), and returns how many of the two there were.
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

// sameList tells whether both lists have the same names with equal values.
func sameList(a, b v1.ResourceList) bool {
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return len(a) == len(b)
}
