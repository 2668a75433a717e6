package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/request"
)

// forEachContainer calls visit for the init containers and then for the app containers, in spec
// order.
func forEachContainer(pod *v1.Pod, visit func(*v1.Container, request.ContainerType)) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		visit(c, typeOf(c))
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i], request.App)
	}
}

func requestsOf(c *v1.Container) v1.ResourceList { return c.Resources.Requests }
func limitsOf(c *v1.Container) v1.ResourceList   { return c.Resources.Limits }

// aggregate returns the maximum that the containers need together at any time in the pod's life:
// the apps beside all sidecars, or a standard init container beside the sidecars that were started
// before it (R-DEM-80). It does not include the pod's overhead.
func aggregate(pod *v1.Pod, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	sidecars, together, worst := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	forEachContainer(pod, func(c *v1.Container, containerType request.ContainerType) {
		if containerType != request.Init {
			addAll(together, of(c))
		}
		if containerType == request.Sidecar {
			addAll(sidecars, of(c))
		}
		if containerType == request.Init {
			candidate := sidecars.DeepCopy()
			addAll(candidate, of(c))
			raiseTo(worst, candidate)
		}
	})
	raiseTo(worst, together)
	return worst
}

func addAll(sum, list v1.ResourceList) {
	for name, q := range list {
		addTo(sum, name, q)
	}
}

func addTo(sum v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	total := sum[name].DeepCopy() // Add may write through a pointer within the quantity
	total.Add(q)
	sum[name] = total
}

// raiseTo raises each amount of list to at least that of candidate.
func raiseTo(list, candidate v1.ResourceList) {
	for name, q := range candidate {
		if old, ok := list[name]; !ok || q.Cmp(old) > 0 {
			list[name] = q.DeepCopy()
		}
	}
}
