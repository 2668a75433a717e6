package treatment

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// away returns how the pod is taken off the node before a start. A pod that belongs to its node
// comes back if it is only deleted, also on a node that is cordoned.
func away(pod *v1.Pod) string {
	switch owner := metav1.GetControllerOf(pod); {
	case podspec.IsMirror(pod):
		return "move the manifest of this static pod out of its directory, and back after the start"
	case owner != nil && owner.Kind == "DaemonSet":
		return "keep this pod of DaemonSet " + owner.Name + " off the node during the start, such as with a label for its node selector"
	}
	switch again := podspec.RecreationOf(pod); again {
	case podspec.ByController:
	case podspec.ByHand:
		return view.SaveFirst(pod.Namespace+"/"+pod.Name, again) + "; then cordon the node, delete the pod, and create it again on another node"
	case podspec.Unknown:
		return "save its manifest if it has no controller; " + quirk.DeleteFirst
	}
	return quirk.DeleteFirst
}

// ofNode reports whether the pod belongs to its node, so that it comes back if it is only deleted.
func ofNode(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return podspec.IsMirror(pod) || owner != nil && owner.Kind == "DaemonSet"
}

// waits reports whether no container of the pod has started.
func waits(pod *v1.Pod) bool {
	if pod.Status.Phase != v1.PodPending {
		return false
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return !slices.ContainsFunc(statuses, func(s v1.ContainerStatus) bool { return s.State.Running != nil || s.State.Terminated != nil })
}

// specAmounts is the first kubelet that takes the amounts of a pod from its spec. 1.33 and 1.34
// take them from the status, where a container has one.
var specAmounts = behavior.Version{Minor: 35}

// amountsInStatus returns why it is not known which amounts a kubelet takes for the pod, or "". A
// status that lacks the amounts is one of 0 CPUs before specAmounts. A status with other amounts
// than the spec is that of a resize under way.
func amountsInStatus(pod *v1.Pod, version behavior.Version) string {
	containers := map[string]v1.ResourceList{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		containers[c.Name] = c.Resources.Requests
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for name, want := range containers[s.Name] {
			if name != v1.ResourceCPU && !request.IsMemory(string(name)) || want.IsZero() {
				continue
			}
			has, known := s.AllocatedResources[name]
			switch {
			case known && has.Cmp(want) != 0:
				return fmt.Sprintf("container %s asks for %s of %s and its status has %s: a resize is not finished", s.Name, want.String(), name, has.String())
			case !known && version.Before(specAmounts):
				return fmt.Sprintf("the status of container %s has no allocated %s, and %s takes the amount from there", s.Name, name, version.Name())
			}
		}
	}
	return ""
}

// restartedDevices reports whether a container with devices of a plugin has restarted, and the
// kubelet is one that can take it for a container that does not run.
func restartedDevices(pod *v1.Pod, version behavior.Version) bool {
	mended := map[int]behavior.Version{33: {Minor: 34}, 34: {Minor: 34, Patch: 7}, 35: {Minor: 35, Patch: 4}}
	if !version.Before(mended[version.Minor]) {
		return false
	}
	restarted := map[string]bool{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarted[s.Name] = s.RestartCount > 0
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c v1.Container) bool {
		for name := range c.Resources.Limits {
			if restarted[c.Name] && name != v1.ResourceCPU && name != v1.ResourceEphemeralStorage && !request.IsMemory(string(name)) {
				return true
			}
		}
		return false
	})
}
