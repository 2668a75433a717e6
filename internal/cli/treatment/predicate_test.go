package treatment_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

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
		r := treatment.RequestsOf(pods, podspec.Gates{}).OutOf(pods["web"], o)
		got := ""
		if r != nil {
			got = strings.Join([]string{r.Reason, r.Message}, ": ")
		}
		if got != c.expected {
			t.Errorf("%s CPUs and %s pods: %q, expected %q", c.cpu, c.maxPods, got, c.expected)
		}
	}
	o := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("9900m")}}}
	if left := treatment.RequestsOf(pods, podspec.Gates{}).Left(pods["web"], o); len(left) != 1 || left["cpu"] != 2 { // 9.9 - 4 - 3.5
		t.Errorf("left: %v, expected 2 CPUs", left)
	}
	if r := treatment.RequestsOf(pods, podspec.Gates{}).OutOf(pods["web"], nil); r != nil {
		t.Errorf("without a Node: %+v", r)
	}
}

// TestRequestsAfterPods checks that requests after pods that came one by one, some of them again
// and with other amounts, are those of all pods at once.
func TestRequestsAfterPods(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("6")}}}
		draw := func() *v1.Pod {
			uid := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(rt, "uid")
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Status: v1.PodStatus{Phase: rapid.SampledFrom([]v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodFailed}).Draw(rt, "phase")}}
			p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU:    resource.MustParse(rapid.SampledFrom([]string{"0", "100m", "1", "2500m"}).Draw(rt, "cpu")),
				v1.ResourceMemory: resource.MustParse(rapid.SampledFrom([]string{"0", "1G", "512Mi", "3Gi"}).Draw(rt, "memory")),
			}}}}
			return p
		}
		first := inputs.Roster{}
		for range rapid.IntRange(0, 3).Draw(rt, "first") {
			p := draw()
			first[string(p.UID)] = p
		}
		at := treatment.RequestsOf(first, podspec.Gates{})
		for range rapid.IntRange(1, 8).Draw(rt, "pods") {
			p, whole := draw(), treatment.RequestsOf(at.Pods(), podspec.Gates{})
			if got, want := at.OutOf(p, o), whole.OutOf(p, o); !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s: %+v, expected %+v", p.Name, got, want)
			}
			if got, want := at.Left(p, o), whole.Left(p, o); !maps.Equal(got, want) {
				rt.Fatalf("%s: %v are left, expected %v", p.Name, got, want)
			}
			_, at = at.Admit(p, o)
		}
	})
}
