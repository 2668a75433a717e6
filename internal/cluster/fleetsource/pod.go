package fleetsource

import (
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
)

// IsMirror reports whether a pod only shows a static pod of its node.
func IsMirror(pod *v1.Pod) bool { return podspec.IsMirror(pod) }

// UID is the UID by which a node knows a pod: that of the static pod for its mirror pod.
func UID(pod *v1.Pod) string { return podspec.UID(pod) }

// Ended reports whether nodes and schedulers have released what a pod had: its phase is terminal. A
// pod that is deleted is released when it is gone.
func Ended(pod *v1.Pod) bool {
	return podspec.Ended(pod)
}

// ReadBound is a pod that is bound to a node with this policy, read as the node's agent reads it.
// The error is that of podspec.Request.
func ReadBound(pod *v1.Pod, p node.Policy) (Bound, error) {
	gates := podspec.GatesOf(p)
	request, err := podspec.Request(podspec.Default(pod, gates), gates)
	if err != nil {
		return Bound{}, err
	}
	if IsMirror(pod) {
		return Bound{Pod: request}, nil
	}
	return Bound{Pod: request, Annotation: pod.Annotations[handover.Annotation]}, nil
}
