package fleetsource

import (
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// IsMirror reports whether a pod is only the mirror of a static pod on its node.
func IsMirror(pod *v1.Pod) bool { return podspec.IsMirror(pod) }

// UID returns the UID by which a node knows a pod. For a mirror pod, it is the UID of the static
// pod.
func UID(pod *v1.Pod) string { return podspec.UID(pod) }

// Ended reports whether nodes and schedulers have released the resources of a pod because its phase
// is terminal. A deleted pod is released when its object is gone.
func Ended(pod *v1.Pod) bool {
	return podspec.Ended(pod)
}

// ReadBound returns a pod that is bound to a node with this policy, as the node's agent reads it.
// The error is that of podspec.Request.
func ReadBound(pod *v1.Pod, p node.Policy) (shown.Bound, error) {
	gates := podspec.GatesOf(p)
	request, err := podspec.Request(podspec.Default(pod, gates), gates)
	if err != nil {
		return shown.Bound{}, err
	}
	if IsMirror(pod) {
		return shown.Bound{Pod: request}, nil
	}
	return shown.Bound{Pod: request, Annotation: pod.Annotations[handover.Annotation]}, nil
}
