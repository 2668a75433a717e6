// Package clustertest makes the objects of a cluster for tests of programs that read them.
package clustertest

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Kind is a kind of nodes. Such a node has two NUMA nodes, CPU 0 is reserved, and the policy is
// single-numa-node.
type Kind struct {
	State  *node.State
	Object *v1alpha1.PaddockMachine

	cpus   int
	policy v1alpha1.Policy
	digest string
}

// New returns a kind of nodes with the given number of CPUs on each NUMA node.
func New(t testing.TB, cpus int) *Kind {
	t.Helper()
	var d machine.Description
	for id := range 2 {
		n := machine.NodeDescription{ID: id, Memory: int64(cpus) << 32}
		for k := range cpus {
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Threads: []int{cpus*id + k}})
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true})
	if err != nil {
		t.Fatal(err)
	}
	return Of(t, s, cpus)
}

// Of returns the kind of the nodes with an empty state and two NUMA nodes with the given number of
// CPUs on each.
func Of(t testing.TB, s *node.State, cpus int) *Kind {
	t.Helper()
	k := &Kind{State: s, cpus: cpus}
	var err error
	if k.Object, err = objects.Machine(s.Machine()); err != nil {
		t.Fatal(err)
	}
	k.Object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PaddockMachine"}
	if k.policy, k.digest, err = objects.Policy(k.State.Policy()); err != nil {
		t.Fatal(err)
	}
	return k
}

// Node returns a node of this kind and its PaddockNode.
func (k *Kind) Node(name string) (*v1.Node, *v1alpha1.PaddockNode) {
	o := &v1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
			v1.LabelInstanceTypeStable: "metal", v1.LabelTopologyZone: "zone-" + name, v1.LabelHostname: name,
		}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			"cpu": *resource.NewQuantity(int64(2*k.cpus-1), resource.DecimalSI), "memory": *resource.NewQuantity(int64(2*k.cpus)<<32-2<<30, resource.BinarySI), "pods": resource.MustParse("110"),
		}},
	}
	p := &v1alpha1.PaddockNode{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PaddockNode"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("paddock-" + name), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: name, UID: o.UID},
		}},
		Status: v1alpha1.PaddockNodeStatus{Machine: k.Object.Name, Policy: k.policy, PolicyDigest: k.digest, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionManaging, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue},
		}},
	}
	return o, p
}

// Pod returns a pod that requests the given CPUs and 1 GiB of memory. at is the name of its node,
// or empty for an unbound pod.
func Pod(name, at, cpus string) *v1.Pod {
	amounts := v1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("1Gi")}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}},
		Spec:       v1.PodSpec{NodeName: at, Containers: []v1.Container{{Name: "main", Image: "x", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts.DeepCopy()}}}},
	}
}

// Hand adds the annotation with which a scheduler binds a pod to these CPUs. The pod must have one
// container.
func (k *Kind) Hand(t testing.TB, pod *v1.Pod, cpus cpuset.Set) {
	t.Helper()
	asked, err := podspec.Request(pod, podspec.GatesOf(k.State.Policy()))
	if err != nil {
		t.Fatal(err)
	}
	plan := k.State.Plan(asked)
	plan.Grant.Containers[0].CPUs = cpus
	if pod.Annotations[handover.Annotation], err = handover.Encode(pod.Spec.NodeName, k.Object.Name, k.digest, plan.Grant); err != nil {
		t.Fatal(err)
	}
}
