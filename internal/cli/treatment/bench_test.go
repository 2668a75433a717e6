package treatment_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

func benchPods(prefix string, n int) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")}
		p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
		pods = append(pods, p)
	}
	return pods
}

// BenchmarkRequests measures the comparison of requests for one question while four pods wait for
// the kubelet's decision: of explain about a pod on a node of 110 pods, and of a plan of 1,000 pods
// on an empty node. Both compare in each of 64 orders, and explain also answers what is left.
func BenchmarkRequests(b *testing.B) {
	o := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1000"), v1.ResourceMemory: resource.MustParse("1Ti"), v1.ResourcePods: resource.MustParse("5000")}}}
	waits := benchPods("waits", 4)
	for _, c := range []struct {
		name         string
		runs, asksOf int
	}{{"explain", 110, 1}, {"plan", 0, 1000}} {
		running := inputs.Roster{}
		for _, p := range benchPods("runs", c.runs) {
			running[string(p.UID)] = p
		}
		pods := benchPods("new", c.asksOf)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				before := treatment.RequestsOf(running, podspec.Gates{})
				for order := range 64 {
					at := before
					for _, p := range slices.Concat(waits[:order%len(waits)+1], pods) {
						rejected, next := at.Admit(p, o)
						if rejected != nil {
							b.Fatal(rejected)
						}
						at = next
					}
				}
				before.Left(pods[0], o)
			}
		})
	}
}
