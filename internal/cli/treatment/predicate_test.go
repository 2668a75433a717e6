package treatment_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// TestOutOf compares requests with what a Node has, as a kubelet does after its managers.
func TestOutOf(t *testing.T) {
	pod := func(name, cpu string, phase v1.PodPhase) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1.PodStatus{Phase: phase}}
		p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p
	}
	pods := inputs.Roster{}
	for _, p := range []*v1.Pod{pod("runs", "4", v1.PodRunning), pod("ended", "3", v1.PodSucceeded), pod("web", "3500m", v1.PodFailed)} {
		pods[string(p.UID)] = p
	}
	for _, c := range []struct {
		cpu, maxPods string
		expected     string
	}{
		{"8", "10", ""},
		{"7500m", "2", ""},
		{"7", "10", "OutOfcpu: cpu: 3500m requested, 3 left of the 7 that the Node has for pods; its other pods request 4"},
		{"7", "1", "OutOfpods: pods: 1 requested, 0 left of the 1 that the Node has for pods; its other pods request 1"},
	} {
		o := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(c.cpu), v1.ResourcePods: resource.MustParse(c.maxPods)}}}
		r := treatment.OutOf(pods["web"], pods, o, podspec.Gates{})
		got := ""
		if r != nil {
			got = strings.Join([]string{r.Reason, r.Message}, ": ")
		}
		if got != c.expected {
			t.Errorf("%s CPUs and %s pods: %q, expected %q", c.cpu, c.maxPods, got, c.expected)
		}
	}
	o := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("9900m")}}}
	if left := treatment.Left(pods["web"], pods, o, podspec.Gates{}); len(left) != 1 || left["cpu"] != 2 { // 9.9 - 4 - 3.5
		t.Errorf("left: %v, expected 2 CPUs", left)
	}
	if r := treatment.OutOf(pods["web"], pods, nil, podspec.Gates{}); r != nil {
		t.Errorf("without a Node: %+v", r)
	}
}
