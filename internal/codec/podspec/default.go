package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Default returns a copy of the pod with the resources that the API server would fill in on
// creation, and the kubelet for static pods (R-DEM-70 to R-DEM-75). It leaves other fields
// unchanged. It also leaves a pod unchanged that has a quantity that Validate and Request reject
// for its exponent. Default is idempotent.
func Default(pod *v1.Pod, g Gates) *v1.Pod {
	out := pod.DeepCopy()
	if checkExponents(pod) != nil {
		return out
	}
	for i := range out.Spec.InitContainers {
		defaultRequests(&out.Spec.InitContainers[i].Resources)
	}
	for i := range out.Spec.Containers {
		defaultRequests(&out.Spec.Containers[i].Resources)
	}
	if r := out.Spec.Resources; g.PodLevelResources && r != nil && len(r.Requests)+len(r.Limits) > 0 {
		defaultPodLevel(out, r)
	}
	roundUp(out)
	return out
}

// defaultPodLevel completes the budget of a pod. It must run before quantities are rounded.
func defaultPodLevel(out *v1.Pod, r *v1.ResourceRequirements) {
	for name, q := range aggregate(out, limitsOf) { // The huge pages of the containers (R-DEM-71).
		_, requested := r.Requests[name]
		_, limited := r.Limits[name]
		if isHugePages(name) && !requested && !limited {
			set(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	// A pod with limits gets the requests of its containers, and its own limits for resources that
	// the containers do not request (R-DEM-72).
	for name, q := range aggregate(out, requestsOf) {
		if _, ok := r.Requests[name]; !ok && (name == v1.ResourceCPU || name == memory) {
			set(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; !ok && isPodLevel(name) {
			set(&r.Requests, name, q.DeepCopy())
		}
	}
}

// roundUp rounds every quantity up to a thousandth (R-DEM-75). It must run last, because a budget
// is the sum of the quantities as written.
func roundUp(pod *v1.Pod) {
	lists := []v1.ResourceList{pod.Spec.Overhead}
	add := func(r *v1.ResourceRequirements) { lists = append(lists, r.Limits, r.Requests) }
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i].Resources)
	}
	if pod.Spec.Resources != nil {
		add(pod.Spec.Resources)
	}
	for _, list := range lists {
		for name, q := range list {
			q.RoundUp(resource.Milli)
			list[name] = q
		}
	}
}

// defaultRequests adds the missing request for each limit (R-DEM-70).
func defaultRequests(r *v1.ResourceRequirements) {
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			set(&r.Requests, name, q.DeepCopy())
		}
	}
}

func set(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q
}
