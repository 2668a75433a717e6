package view

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// SaveFirst returns what to do before deleting a pod with the name "namespace/name", so that the
// pod can be created again. It returns "" if a controller creates the pod again.
func SaveFirst(pod string, again podspec.Recreation) string {
	namespace, name, _ := strings.Cut(pod, "/")
	save := fmt.Sprintf("save its manifest first (kubectl get pod -n %s %s -o yaml > %s.yaml)", namespace, name, name)
	switch again {
	case podspec.ByController:
		return ""
	case podspec.ByHand:
		return "it has no controller: " + save
	case podspec.Unknown:
	}
	return "it is not known whether a controller creates it again: " + save
}

// KeepPods ends an unsure answer, which does not propose to delete pods.
const KeepPods = "the answer is unsure: be sure before you delete a pod"

// Replace returns how to replace a pod that the kubelet does not try again.
func Replace(pod string, again podspec.Recreation) string {
	if save := SaveFirst(pod, again); save != "" {
		return save + ", delete it, and create it again without its nodeName"
	}
	return "delete it, or let its controller make another"
}
