package handover

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Bound is a pod that is bound to a node and has not ended.
type Bound struct {
	// Pod is what it asks for, with the UID that the node knows it by.
	Pod request.Pod
	// Annotation is the text of its annotation; empty for static pods and mirror pods, whose
	// annotations do not count.
	Annotation string
}

// Listing is the pods of a node as they were at one time, by UID. It is immutable.
type Listing struct {
	Pods map[string]Bound
	// Unusable are the UIDs of pods that are listed with something that cannot be used.
	Unusable []string
	Asked    time.Time
}

// sourceAnnotation is where kubelets note where they have a pod from, and fromAPI the API server.
const (
	sourceAnnotation = "kubernetes.io/config.source"
	fromAPI          = "api"
)

// TextOf is the text in the annotations of a pod as the kubelet passes them on. A static pod has
// none: its manifest is no scheduler's.
func TextOf(annotations map[string]string) string {
	if source := annotations[sourceAnnotation]; source != "" && source != fromAPI {
		return ""
	}
	return annotations[Annotation]
}
