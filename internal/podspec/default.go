package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Default returns a copy of the pod with the resources filled in that the API server
// would fill in on creation, and the kubelet for static pods (R-DEM-70 to R-DEM-74).
// Other fields are left as they are, and so is a pod with a quantity that Validate and
// Request refuse for its exponent. Doing it twice is doing it once.
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
	if g.PodLevelResources && out.Spec.Resources != nil {
		defaultHugePageLimits(out)
		defaultPodRequests(out)
	}
	return out
}

// defaultRequests gives each limit that has no request a request (R-DEM-70).
func defaultRequests(r *v1.ResourceRequirements) {
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			set(&r.Requests, name, q.DeepCopy())
		}
	}
}

// defaultHugePageLimits gives the pod the huge pages of its containers (R-DEM-71).
func defaultHugePageLimits(pod *v1.Pod) {
	r := pod.Spec.Resources
	if len(r.Requests) == 0 && len(r.Limits) == 0 {
		return
	}
	for name, q := range aggregate(pod, limitsOf) {
		_, requested := r.Requests[name]
		_, limited := r.Limits[name]
		if isHugePages(name) && !requested && !limited {
			set(&r.Limits, name, q)
		}
	}
}

// defaultPodRequests gives a pod that has limits the requests of its containers, and
// where they have none its limits (R-DEM-72).
func defaultPodRequests(pod *v1.Pod) {
	r := pod.Spec.Resources
	if len(r.Limits) == 0 {
		return
	}
	for name, q := range aggregate(pod, requestsOf) {
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

func set(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q
}
