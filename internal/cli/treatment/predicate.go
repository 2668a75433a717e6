package treatment

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

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

// OutOf returns the rejection of a pod that a kubelet's managers admit: the kubelet then compares
// the requests of all pods of the node with what the Node has for pods, whichever CPUs and memory
// they have. It returns nil if the pod fits, if it is critical, so that the kubelet ends other pods
// instead, or if the Node, which may be nil, does not have the amounts. Extended resources are not
// compared: the Device Manager rejects pods that ask for too many devices of a plugin.
func (r *Requests) OutOf(pod *v1.Pod, o *v1.Node) *view.PlanRejection {
	rejected, _ := r.Admit(pod, o)
	return rejected
}

// Admit returns the rejection as OutOf, or else the requests with those of the pod, which must not
// change from then on.
func (r *Requests) Admit(pod *v1.Pod, o *v1.Node) (*view.PlanRejection, *Requests) {
	uid, asked := podspec.UID(pod), r.admitted(pod) // Pods of manifests have no UID of their own.
	used := r.beside(uid)
	for i := range counted {
		if o == nil || podspec.IsCritical(pod) {
			break
		}
		if rejected := compare(i, asked, used, o); rejected != nil {
			return rejected, r
		}
	}
	return nil, &Requests{gates: r.gates, asked: r.asked, pods: r.pods, last: &arrival{uid, pod, r.last}, sum: used.with(pod, asked)}
}

// compare is OutOf for one resource, by its index.
func compare(i int, asked, used amounts, o *v1.Node) *view.PlanRejection {
	name := counted[i]
	left, known := o.Status.Allocatable[name]
	if !known || asked[i].IsZero() {
		return nil
	}
	total := left
	left = left.DeepCopy()
	left.Sub(used[i])
	if asked[i].Cmp(left) <= 0 {
		return nil
	}
	return &view.PlanRejection{Reason: "OutOf" + string(name), Resource: string(name), Message: fmt.Sprintf(
		"%s: %s requested, %s left of the %s that the Node has for pods; its other pods request %s", name, asked[i].String(), left.String(), total.String(), used[i].String())}
}

// short returns the resources of which a pod beside the others requests more than the Node has.
func (r *Requests) short(pod *v1.Pod, o *v1.Node) []v1.ResourceName {
	used, asked := r.beside(podspec.UID(pod)), amountsOf(pod, r.gates)
	var names []v1.ResourceName
	for i, name := range counted {
		if compare(i, asked, used, o) != nil {
			names = append(names, name)
		}
	}
	return names
}

// Left returns how many more CPUs and bytes of memory a pod could request before OutOf rejects it.
// It is negative if OutOf rejects the pod already. A resource of which the Node, which may be nil,
// does not have the amount is not in the result.
func (r *Requests) Left(pod *v1.Pod, o *v1.Node) map[string]int64 {
	if o == nil {
		return nil
	}
	used, asked := r.beside(podspec.UID(pod)), amountsOf(pod, r.gates)
	out := map[string]int64{}
	for i, name := range counted {
		left, known := o.Status.Allocatable[name]
		if !known || name != v1.ResourceCPU && name != v1.ResourceMemory {
			continue
		}
		left = left.DeepCopy()
		left.Sub(used[i])
		left.Sub(asked[i])
		out[string(name)] = int64(math.Floor(float64(left.MilliValue()) / 1000)) // Value rounds up.
	}
	return out
}
