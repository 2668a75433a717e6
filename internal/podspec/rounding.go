package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/request"
)

// roundedNeed is what the containers of a pod need together, in bytes, after each amount of a container that
// has memory of its own was rounded up to the next byte. Two containers of 0.1Gi need 214,748,366 bytes;
// their pod of 0.2Gi, rounded once, has one byte less and must not be rejected for it.
//
// A resource of which the containers request more than the pod, as written, is left out: rounding does not
// make an invalid pod valid. The map is nil if no amount has a fraction.
func roundedNeed(pod *v1.Pod) map[request.Resource]int64 {
	if !hasFractions(pod) {
		return nil
	}
	written, rounded := aggregate(pod, requestsOf), aggregate(pod, roundedRequestsOf)
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

// hasFractions tells whether the memory of a container is no whole number of bytes.
func hasFractions(pod *v1.Pod) bool {
	found := false
	forEachContainer(pod, func(c *v1.Container, _ request.Lane) {
		for name, q := range c.Resources.Requests {
			found = found || isFraction(name, q)
		}
	})
	return found
}

// roundedRequestsOf are the container's requests with whole bytes. The requests of a container that shares stay
// as they are, because it gets no bytes of its own.
func roundedRequestsOf(c *v1.Container) v1.ResourceList {
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

func isFraction(name v1.ResourceName, q resource.Quantity) bool {
	return isMemory(name) && inRange(q, maxUnits) == nil && !isWhole(q)
}
