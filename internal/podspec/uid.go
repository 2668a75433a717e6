package podspec

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// UID is the key of a pod: its metadata.uid, or, for a manifest that has none, a digest
// of namespace, name and spec in the form of a UUID. The same manifest has the same UID
// everywhere and always; a changed one is another pod.
func UID(pod *v1.Pod) string {
	if pod.UID != "" {
		return string(pod.UID)
	}
	h := sha256.New()
	// A PodSpec has no value that JSON lacks, and a failing encoder would only make the
	// digest depend on less.
	_ = json.NewEncoder(h).Encode([]any{pod.Namespace, pod.Name, pod.Spec})
	d := h.Sum(nil)
	d[6], d[8] = d[6]&0x0f|0x80, d[8]&0x3f|0x80 // version 8, custom; variant RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}
