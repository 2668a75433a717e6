package treatment

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// counted are the resources that a kubelet compares, in its order, without extended resources.
var counted = []v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// OutOf returns the rejection of a pod that a kubelet's managers admit: the kubelet then compares
// the requests of all pods of the node with what the Node has for pods, whichever CPUs and memory
// they have. It returns nil if the pod fits, if it is critical, so that the kubelet ends other pods
// instead, or if the Node, which may be nil, does not have the amounts. Extended resources are not
// compared: the Device Manager rejects pods that ask for too many devices of a plugin.
func OutOf(pod *v1.Pod, pods inputs.Roster, o *v1.Node, gates podspec.Gates) *view.PlanRejection {
	if o == nil || podspec.IsCritical(pod) {
		return nil
	}
	for _, name := range counted {
		if r := compare(pod, pods, o, name, gates); r != nil {
			return r
		}
	}
	return nil
}

// AssumedNode returns a Node that has for pods what the kubelet's configuration leaves of the
// machine: without flags of the kubelet, its Node has the same.
func AssumedNode(n *inputs.Node) *v1.Node {
	a := n.Policy.Allocatable
	return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(a.Milli, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(a.Memory[request.Memory], resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(a.Pods, resource.DecimalSI),
	}}}
}

// compare is OutOf for one resource.
func compare(pod *v1.Pod, pods inputs.Roster, o *v1.Node, name v1.ResourceName, gates podspec.Gates) *view.PlanRejection {
	total, known := o.Status.Allocatable[name]
	asked := requestOf(pod, name, gates)
	if !known || asked.IsZero() {
		return nil
	}
	used := usedBeside(pod, pods, name, gates)
	left := total.DeepCopy()
	left.Sub(used)
	if asked.Cmp(left) <= 0 {
		return nil
	}
	return &view.PlanRejection{Reason: "OutOf" + string(name), Resource: string(name), Message: fmt.Sprintf(
		"%s: %s requested, %s left of the %s that the Node has for pods; its other pods request %s", name, asked.String(), left.String(), total.String(), used.String())}
}

// Left returns how many more CPUs and bytes of memory a pod could request before OutOf rejects it.
// It is negative if OutOf rejects the pod already. A resource of which the Node, which may be nil,
// does not have the amount is not in the result.
func Left(pod *v1.Pod, pods inputs.Roster, o *v1.Node, gates podspec.Gates) map[string]int64 {
	if o == nil {
		return nil
	}
	out := map[string]int64{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		left, known := o.Status.Allocatable[name]
		if !known {
			continue
		}
		left = left.DeepCopy()
		left.Sub(usedBeside(pod, pods, name, gates))
		left.Sub(requestOf(pod, name, gates))
		out[string(name)] = int64(math.Floor(float64(left.MilliValue()) / 1000)) // Value rounds up.
	}
	return out
}

// usedBeside returns what the other pods of a node request that have not ended.
func usedBeside(pod *v1.Pod, pods inputs.Roster, name v1.ResourceName, gates podspec.Gates) resource.Quantity {
	var used resource.Quantity
	uid := podspec.UID(pod) // Pods of manifests have none of their own.
	for of, other := range pods {
		if of != uid && !podspec.Ended(other) {
			used.Add(requestOf(other, name, gates))
		}
	}
	return used
}

// requestOf returns how much of a resource a pod requests. Each pod counts as one of a Node's pods.
func requestOf(pod *v1.Pod, name v1.ResourceName, gates podspec.Gates) resource.Quantity {
	if name == v1.ResourcePods {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources})[name]
}
