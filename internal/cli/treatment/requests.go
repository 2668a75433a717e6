package treatment

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// counted are the resources that a kubelet compares, in its order, without extended resources.
var counted = [...]v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// amounts are those of the counted resources, in their order.
type amounts [len(counted)]resource.Quantity

// Requests are what the pods of a node request, as its kubelet compares it with what the Node has
// for pods. They do not change: Admit returns others. Their sum is kept, and what each admitted pod
// asks for, because one question can compare a thousand pods in each of 64 orders of other pods.
// They and those that Admit returned are for one goroutine.
type Requests struct {
	gates podspec.Gates
	asked map[*v1.Pod]amounts
	// pods were there at first, and last is the pod that came last, after the pods before it.
	pods inputs.Roster
	last *arrival
	// sum is the sum over the pods that have not ended.
	sum amounts
}

// arrival is a pod after other pods.
type arrival struct {
	uid    string
	pod    *v1.Pod
	before *arrival
}

// RequestsOf returns the requests of the pods of a node.
func RequestsOf(pods inputs.Roster, gates podspec.Gates) *Requests {
	r := &Requests{gates: gates, asked: map[*v1.Pod]amounts{}, pods: pods}
	for _, pod := range pods {
		r.sum = r.sum.with(pod, amountsOf(pod, gates))
	}
	return r
}

// Pods returns the pods.
func (r *Requests) Pods() inputs.Roster {
	pods := inputs.Roster{}
	for a := r.last; a != nil; a = a.before {
		if pods[a.uid] == nil {
			pods[a.uid] = a.pod
		}
	}
	for uid, pod := range r.pods {
		if pods[uid] == nil {
			pods[uid] = pod
		}
	}
	return pods
}

// beside returns what the other pods than the one with that UID request.
func (r *Requests) beside(uid string) amounts {
	pod := r.pods[uid]
	for a := r.last; a != nil; a = a.before {
		if a.uid == uid {
			pod = a.pod
			break
		}
	}
	if pod == nil || podspec.Ended(pod) {
		return r.sum
	}
	left := r.sum
	for i, asked := range amountsOf(pod, r.gates) {
		left[i] = left[i].DeepCopy()
		left[i].Sub(asked)
	}
	return left
}

// admitted returns what a pod asks for that does not change from then on.
func (r *Requests) admitted(pod *v1.Pod) amounts {
	asked, known := r.asked[pod]
	if !known {
		asked = amountsOf(pod, r.gates)
		r.asked[pod] = asked
	}
	return asked
}

// with returns the amounts with those that a pod asks for, unless it has ended.
func (a amounts) with(pod *v1.Pod, asked amounts) amounts {
	if podspec.Ended(pod) {
		return a
	}
	for i := range a {
		a[i] = a[i].DeepCopy()
		a[i].Add(asked[i])
	}
	return a
}

// amountsOf returns what a pod requests. Each pod counts as one of a Node's pods. The form of an
// amount does not depend on the pod, so that the form of a sum does not depend on the order.
func amountsOf(pod *v1.Pod, gates podspec.Gates) amounts {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources})
	var out amounts
	for i, name := range counted {
		asked := list[name]
		switch name {
		case v1.ResourcePods:
			asked = *resource.NewQuantity(1, resource.DecimalSI)
		case v1.ResourceCPU:
			asked.Format = resource.DecimalSI
		default:
			asked.Format = resource.BinarySI
		}
		out[i] = asked
	}
	return out
}

// requestOf returns how much of a resource a pod requests.
func requestOf(pod *v1.Pod, name v1.ResourceName, gates podspec.Gates) resource.Quantity {
	all := amountsOf(pod, gates)
	for i := range counted {
		if counted[i] == name {
			return all[i]
		}
	}
	return resource.Quantity{}
}
