package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/request"
)

// roundedNeed returns what the containers of a pod need together, in bytes. Each amount of a
// container that has its own memory is first rounded up to the next byte. For example, two
// containers of 0.1Gi need 214,748,366 bytes. Their pod of 0.2Gi, rounded once, has one byte less
// and must not be rejected for that.
//
// A resource is left out if the containers, as written, request more of it than the pod: rounding
// must not make an invalid pod valid. The map is nil if no amount has a fraction.
func roundedNeed(pod *v1.Pod) map[request.Resource]int64 {
	fractions := false
	forEachContainer(pod, func(c *v1.Container, _ request.ContainerType) {
		for name, q := range c.Resources.Requests {
			fractions = fractions || isFraction(name, q)
		}
	})
	if !fractions {
		return nil
	}
	// The requests of a container that shares stay unchanged, because it gets no bytes of its own.
	roundedRequests := func(c *v1.Container) v1.ResourceList {
		if !isEquivalent(c) {
			return c.Resources.Requests
		}
		list := v1.ResourceList{}
		for name, q := range c.Resources.Requests {
			if isFraction(name, q) {
				q = *resource.NewQuantity(q.Value(), q.Format)
			}
			list[name] = q
		}
		return list
	}
	written, rounded := aggregate(pod, requestsOf), aggregate(pod, roundedRequests)
	bytes := map[request.Resource]int64{}
	for name, q := range pod.Spec.Resources.Requests {
		if !isMemory(name) || q.Cmp(written[name]) < 0 {
			continue
		}
		if n, err := bytesOf(rounded[name]); err == nil {
			bytes[string(name)] = n
		}
	}
	return bytes
}

func isFraction(name v1.ResourceName, q resource.Quantity) bool {
	return isMemory(name) && inRange(q, maxUnits) == nil && !isWhole(q)
}

// markFractions marks the amounts of memory that a kubelet with Static memory reads and that are
// not a whole number of bytes. In a plain pod, a kubelet reads the amounts of all
// containers. In a pod-level pod, it reads the budget and the amounts of the containers that have
// their own memory.
func markFractions(out *request.Pod, pod *v1.Pod) {
	podLevel := pod.Spec.Resources != nil
	out.FractionalMemory = podLevel && anyFraction(pod.Spec.Resources.Requests)
	i := 0
	forEachContainer(pod, func(c *v1.Container, _ request.ContainerType) {
		out.Containers[i].FractionalMemory = anyFraction(c.Resources.Requests) && (!podLevel || isEquivalent(c))
		i++
	})
}

func anyFraction(list v1.ResourceList) bool {
	for name, q := range list {
		if isFraction(name, q) {
			return true
		}
	}
	return false
}
