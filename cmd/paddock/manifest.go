package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/podspec"
)

// dropIllegal leaves out amounts that the API server would refuse: a request.Pod does not know all
// that containers ask for, such as the memory requests of those that share.
func dropIllegal(r *explain.Remedies, pod *v1.Pod, gates podspec.Gates) {
	r.Proposals = slices.DeleteFunc(r.Proposals, func(p explain.Proposal) bool {
		invalid := podspec.Validate(podspec.Default(withAmounts(pod, p.Changes), gates), gates)
		if len(invalid) == 0 {
			return false
		}
		r.Tried = append(r.Tried, explain.Try{What: p.Text, Found: fmt.Sprintf("left out, for the API server would refuse the pod: %v", invalid[0])})
		return true
	})
}

// withAmounts is the pod with other requests and limits, where it has them.
func withAmounts(pod *v1.Pod, changes []explain.Change) *v1.Pod {
	pod = pod.DeepCopy()
	for _, c := range changes {
		if c.Container == "" && pod.Spec.Resources != nil {
			setAmount(pod.Spec.Resources, c)
		}
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if list[i].Name == c.Container {
					setAmount(&list[i].Resources, c)
				}
			}
		}
	}
	return pod
}

func setAmount(r *v1.ResourceRequirements, c explain.Change) {
	format := resource.DecimalSI
	if c.Resource != request.CPU {
		format = resource.BinarySI
	}
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		if _, has := list[v1.ResourceName(c.Resource)]; has {
			list[v1.ResourceName(c.Resource)] = *resource.NewQuantity(c.To, format)
		}
	}
}
