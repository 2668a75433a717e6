package podspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// The annotations with which kubelets mark mirror pods. Both have the UID of the static pod.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// IsMirror reports whether a pod only shows a static pod of its node.
func IsMirror(pod *v1.Pod) bool { return pod.Annotations[mirrorAnnotation] != "" }

// UID is the key of a pod, by which its kubelet and the kubelet's files know it: its metadata.uid,
// or, for a pod that has none, a digest of namespace, name and spec in the form of a UUID. The same
// manifest has the same UID everywhere and always; a changed one is another pod. A mirror pod has
// the UID of its static pod.
func UID(pod *v1.Pod) string {
	if IsMirror(pod) {
		return cmp.Or(pod.Annotations[hashAnnotation], pod.Annotations[mirrorAnnotation])
	}
	if pod.UID != "" {
		return string(pod.UID)
	}
	return digest("Pod", pod.Namespace, pod.Name, pod.Spec)
}

// Derived reports whether a UID is one that UID makes for a pod that has none: a UUID of version 8.
// The API server makes those of version 4.
func Derived(uid string) bool { return len(uid) == 36 && uid[14] == '8' }

func digest(parts ...any) string {
	h := sha256.New()
	// No value that is given here is missing in JSON. If one were, the digest would depend on less
	// and still always be the same.
	_ = json.NewEncoder(h).Encode(parts)
	d := h.Sum(nil)
	d[6], d[8] = d[6]&0x0f|0x80, d[8]&0x3f|0x80 // version 8: as its maker likes; RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}
