package handover

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/shown"
)

// Bound is a pod that is bound to a node and has not terminated.
type Bound = shown.Bound

// Name is the name of a pod.
type Name struct{ Namespace, Name string }

// Listing has the pods of a node at one point in time. It is immutable.
type Listing struct {
	Pods map[string]Bound // by UID
	// Unusable are the UIDs of listed pods that have unusable content.
	Unusable []string
	// Begun are the names of all pods on the node whose phase is not Pending: also of pods that
	// have terminated and still exist, of pods without requests, and of unusable ones. They are in
	// no order.
	Begun []Name
	Asked time.Time
}

// sourceAnnotation is the annotation in which kubelets record the source of a pod. fromAPI is its
// value for the API server.
const (
	sourceAnnotation = "kubernetes.io/config.source"
	fromAPI          = "api"
)

// TextOf returns the text in the annotations of a pod as the kubelet passes them on. It returns ""
// for a static pod, because its manifest does not come from a scheduler.
func TextOf(annotations map[string]string) string {
	if source := annotations[sourceAnnotation]; source != "" && source != fromAPI {
		return ""
	}
	return annotations[Annotation]
}
