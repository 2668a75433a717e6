package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

var preemptionGates = podspec.Gates{PodLevelResources: true, PodLevelManagers: true}

// preemption is a node in a scheduling cycle, with the pods that are expected on it.
type preemption struct {
	plugin *Plugin
	info   fwk.NodeInfo
	state  fwk.CycleState
	pod    *v1.Pod
	// machine and policy are those of the node.
	machine *machine.Machine
	policy  node.Policy
	// bound has the bound pods by UID. all has their grants. grants has the grants of those that
	// are not removed.
	bound       map[string]*v1.Pod
	all, grants map[string]*node.Grant
	// nominated lists the pods that were added, in order.
	nominated []*v1.Pod
}

// TestPreemption checks Filter under every policy and scope, after any order of RemovePod and
// AddPod. The expected answer is that of a node that is made of the remaining grants and then
// admits the nominated pods in order. A pod that is added again has the grant that it had before. A
// nominated pod that does not fit is skipped.
func TestPreemption(t *testing.T) {
	m := hardware(t, 2, 8)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPreemption(t, m)
		p.check(t, "nothing")
		for i := range rapid.IntRange(4, 24).Draw(t, "steps") {
			switch uid := rapid.SampledFrom(slices.Sorted(maps.Keys(p.bound))).Draw(t, "bound"); rapid.IntRange(0, 3).Draw(t, "action") {
			case 0:
				pod := drawPod(t, fmt.Sprint("nominated-", i))
				p.nominated = append(p.nominated, pod)
				p.change(t, p.plugin.AddPod, pod)
			case 1: // A pod that was added is removed again.
				if len(p.nominated) > 0 {
					k := rapid.IntRange(0, len(p.nominated)-1).Draw(t, "nominated")
					p.change(t, p.plugin.RemovePod, p.nominated[k])
					p.nominated = slices.Delete(p.nominated, k, k+1)
				}
			case 2: // The pod may have no grant, and may be removed already.
				delete(p.grants, uid)
				p.change(t, p.plugin.RemovePod, p.bound[uid])
			default: // The pod may not be removed.
				if g := p.all[uid]; g != nil {
					p.grants[uid] = g
					p.change(t, p.plugin.AddPod, p.bound[uid])
				}
			}
			p.check(t, fmt.Sprint("step ", i))
		}
	})
}

// drawPreemption returns a node of two NUMA nodes of 8 CPUs with pods. Some of the pods may have
// found no room.
func drawPreemption(t *rapid.T, m *machine.Machine) *preemption {
	p := &preemption{machine: m, state: framework.NewCycleState(), bound: map[string]*v1.Pod{}, grants: map[string]*node.Grant{}, plugin: &Plugin{shared: &shared{}}}
	p.policy = node.Policy{
		Topology: rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "policy"),
		Scope:    rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope"), StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: rapid.Bool().Draw(t, "static memory"), PodLevelResources: true, PodLevelManagers: true,
	}
	p.plugin.settings, _ = read(rawArgs(`{}`))
	p.plugin.synced.Store(true)
	p.plugin.cluster = cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods: func(string) []*v1.Pod { return nil }, Exists: func(string, string, string) bool { return true }, AgentReady: func([]*v1.Pod) bool { return true },
		Report: func(node, pod string, err error) { t.Errorf("%s: %s: %v", node, pod, err) },
	})
	p.plugin.cluster.Update("n", &cluster.Source{Node: &fleetsource.Node{Here: handover.Here{Node: "n"}, Machine: m, Policy: p.policy}})
	p.info = framework.NewNodeInfo()
	p.info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	for i := range rapid.IntRange(3, 8).Draw(t, "pods") {
		pod := drawPod(t, fmt.Sprint("p", i))
		p.bound[string(pod.UID)] = pod
		done, err := p.plugin.cluster.Reserve("n", p.read(t, pod))
		if err != nil {
			t.Fatal(err)
		}
		if done.Plan.Grant != nil {
			p.grants[string(pod.UID)] = done.Plan.Grant
		}
	}
	p.all = maps.Clone(p.grants)
	p.pod = drawPod(t, "incoming")
	if _, status := p.plugin.PreFilter(t.Context(), p.state, p.pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	return p
}

// drawPod returns a Guaranteed pod of one or two containers. It may have an init container, or
// pod-level resources.
func drawPod(t *rapid.T, name string) *v1.Pod {
	amounts := func(cpus int) v1.ResourceRequirements {
		memory := resource.MustParse(fmt.Sprint(rapid.SampledFrom([]int{1, 1, 30, 130}).Draw(t, "GiB"), "Gi"))
		list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), v1.ResourceMemory: memory}
		return v1.ResourceRequirements{Requests: list, Limits: list}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for k := range rapid.IntRange(1, 2).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprint("c", k), Resources: amounts(rapid.SampledFrom([]int{1, 1, 2, 2, 3, 4, 6, 9}).Draw(t, "cpus"))})
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		pod.Spec.InitContainers = []v1.Container{{Name: "init", Resources: amounts(rapid.IntRange(1, 9).Draw(t, "cpus"))}}
	case 1: // The containers share the pod-level resources.
		budget := pod.Spec.Containers[0].Resources
		pod.Spec.Resources = &budget
		for k := range pod.Spec.Containers {
			pod.Spec.Containers[k].Resources = v1.ResourceRequirements{}
		}
	default:
	}
	return pod
}

func (p *preemption) read(t *rapid.T, pod *v1.Pod) fleet.Pod {
	asked, err := cluster.Read(pod, preemptionGates)
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

func (p *preemption) change(t *rapid.T, f func(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status, pod *v1.Pod) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	p.state = p.state.Clone() // Preemption clones the state for each node.
	if status := f(t.Context(), p.state, p.pod, info, p.info); !status.IsSuccess() {
		t.Fatal(status)
	}
}

// check compares with a node that is created from the grants.
func (p *preemption) check(t *rapid.T, after string) {
	s, err := node.Restore(p.machine, p.policy, slices.Collect(maps.Values(p.grants)))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range p.nominated {
		if s, err = s.Apply(s.Plan(p.read(t, pod).Pod)); err != nil {
			t.Fatal(err)
		}
	}
	asked := p.read(t, p.pod)
	plan := s.Plan(asked.Pod)
	status := p.plugin.Filter(t.Context(), p.state, p.pod, p.info)
	want := ""
	if r := plan.Rejection; r != nil {
		answer := &fleet.Answer{Why: fleet.Why{Cause: plan.Trace.Cause, Reason: r.Reason, Resource: r.Resource}, Wanted: r.Wanted}
		want = (&reasons{}).of(answer, &asked.Pod, p.policy)
	}
	if status.IsSuccess() != (plan.Grant != nil) || status.Message() != want {
		t.Fatalf("after %s Filter answers %q, a node with these pods %q: %v, nominated %d", after, status.Message(), want, slices.Sorted(maps.Keys(p.grants)), len(p.nominated))
	}
}
