package podspec

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Recreation describes how a pod is created again after it is deleted.
type Recreation string

// The kinds of Recreation.
const (
	// ByController means that the controller of the pod creates another pod, or that the kubelet
	// creates it again from a file.
	ByController Recreation = "by its controller"
	// ByHand means that the pod has no controller, so a person needs its manifest to create it
	// again.
	ByHand Recreation = "by hand"
	// Unknown means that the object does not show whether the pod has a controller.
	Unknown Recreation = "unknown"
)

// RecreationOf returns how a pod is created again. An object from the API server shows whether the
// pod has a controller. So does an object that "paddock collect --filter" reduced, in which an
// empty list of owners means that there is none. An object without that list may come from another
// filter, which removed the list.
func RecreationOf(pod *v1.Pod) Recreation {
	switch {
	case metav1.GetControllerOfNoCopy(pod) != nil || IsStatic(pod):
		return ByController
	case pod.OwnerReferences != nil || pod.ResourceVersion != "":
		return ByHand
	}
	return Unknown
}
