package podspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// The annotations with which kubelets mark mirror pods. The value of both is the UID of the static
// pod.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// sourceAnnotation is the annotation in which a kubelet keeps where a pod came from.
const sourceAnnotation = "kubernetes.io/config.source"

// IsMirror reports whether a pod is only the mirror of a static pod of its node.
func IsMirror(pod *v1.Pod) bool { return pod.Annotations[mirrorAnnotation] != "" }

// IsStatic reports whether a pod is a static pod of its node, or the mirror of one.
func IsStatic(pod *v1.Pod) bool {
	source, has := pod.Annotations[sourceAnnotation]
	return has && source != "api" || IsMirror(pod)
}

// systemCritical is the lowest priority of a critical pod, that of system-cluster-critical.
const systemCritical = 2_000_000_000

// IsCritical reports whether a kubelet ends other pods if the requests of this one exceed what its
// Node has, instead of rejecting it.
func IsCritical(pod *v1.Pod) bool {
	return IsStatic(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
}

// UID returns the key by which the kubelet and its files identify a pod: its metadata.uid, or, if
// it has none, a digest of namespace, name and spec in the form of a UUID. The same manifest always
// has the same UID, and a changed manifest is another pod. A mirror pod has the UID of its static
// pod.
func UID(pod *v1.Pod) string {
	if IsMirror(pod) {
		return cmp.Or(pod.Annotations[hashAnnotation], pod.Annotations[mirrorAnnotation])
	}
	if pod.UID != "" {
		return string(pod.UID)
	}
	return digest("Pod", pod.Namespace, pod.Name, pod.Spec)
}

// Derived reports whether the function UID made a UID for a pod without one. Such a UID is a UUID
// of version 8, whereas the API server makes UUIDs of version 4.
func Derived(uid string) bool { return len(uid) == 36 && uid[14] == '8' }

func digest(parts ...any) string {
	h := sha256.New()
	// Every value that is passed here can be encoded as JSON. If one could not, the digest would
	// depend on fewer values but would still be deterministic.
	_ = json.NewEncoder(h).Encode(parts)
	d := h.Sum(nil)
	d[6], d[8] = d[6]&0x0f|0x80, d[8]&0x3f|0x80 // UUID version 8 (custom format), RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}
