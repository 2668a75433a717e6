package fleetsource_test

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// eight returns a machine with CPUs 0-7 on one NUMA node, and a policy that reserves CPU 0.
func eight(t *testing.T) (*machine.Machine, node.Policy) {
	t.Helper()
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{
		Memory: 1 << 34, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}, {Threads: []int{4, 5}}, {Threads: []int{6, 7}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0)}
}

// object returns the PaddockNode of a state that publishes these pods.
func object(t *testing.T, s *node.State, published ...string) *v1alpha1.PaddockNode {
	t.Helper()
	m, err := objects.Machine(s.Machine())
	if err != nil {
		t.Fatal(err)
	}
	policy, digest, err := objects.Policy(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n7"}, Status: v1alpha1.PaddockNodeStatus{
		Machine: m.Name, Policy: policy, PolicyDigest: digest, Revision: int64(s.Generation()),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionManaging, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}},
	}}
	for _, uid := range published {
		g, known := s.Grant(uid)
		if !known {
			t.Fatalf("no grant of %s", uid)
		}
		p, err := objects.Grant(g)
		if err != nil {
			t.Fatal(err)
		}
		o.Status.Grants = append(o.Status.Grants, p)
	}
	return o
}

// guaranteed returns a Guaranteed pod with this many CPUs.
func guaranteed(uid, cpus string) *v1.Pod {
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("1Gi")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: uid, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
	}
}

func bound(t *testing.T, pod *v1.Pod, p node.Policy) shown.Bound {
	t.Helper()
	b, err := fleetsource.ReadBound(pod, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestState uses a published grant, a grant in an annotation, a mirror pod, a pod without a grant,
// and an annotation that contradicts a published grant.
func TestState(t *testing.T) {
	m, policy := eight(t)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	admit := func(pod *v1.Pod) *node.Grant {
		next, err := s.Apply(s.Plan(bound(t, pod, policy).Pod))
		if err != nil {
			t.Fatal(err)
		}
		s = next
		g, _ := s.Grant(fleetsource.UID(pod))
		return g
	}
	machines := func(string) (*machine.Machine, error) { return m, nil }
	first, err := fleetsource.Read(object(t, s), machines)
	if err != nil || !first.Managing || !first.Complete {
		t.Fatal(err)
	}
	annotate := func(pod *v1.Pod, g *node.Grant) {
		text, err := handover.Encode(first.Here.Node, first.Here.Machine, first.Here.Policy, g)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[handover.Annotation] = text
	}
	handed, mirror, foreign, wrong := guaranteed("handed", "2"), guaranteed("mirror", "1"), guaranteed("foreign", "1"), guaranteed("wrong", "1")
	annotate(handed, admit(handed))
	mirror.Annotations["kubernetes.io/config.mirror"], mirror.Annotations["kubernetes.io/config.hash"] = "static", "static"
	annotate(mirror, admit(mirror)) // Forged. The annotation of a mirror pod does not count.
	n, err := fleetsource.Read(object(t, s, "static"), machines)
	if err != nil {
		t.Fatal(err)
	}
	taken, _ := s.Release("static").Apply(s.Release("static").Plan(bound(t, wrong, policy).Pod))
	g, _ := taken.Grant("wrong")
	annotate(wrong, g)
	built, err := n.State([]shown.Bound{bound(t, handed, policy), bound(t, mirror, policy), bound(t, foreign, policy), bound(t, wrong, policy)})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"handed", "static"} {
		got, known := built.State.Grant(uid)
		if want, _ := s.Grant(uid); !known || !got.SameAssignments(want) {
			t.Errorf("pod %s has another grant than on its node", uid)
		}
	}
	if want := []string{"foreign", "wrong"}; !slices.Equal(built.Provisional, want) || len(built.Missing) > 0 || len(built.Findings) != 1 {
		t.Errorf("provisional %v, missing %v, findings %v", built.Provisional, built.Missing, built.Findings)
	}
	if err := built.State.Check(); err != nil {
		t.Error(err)
	}
}

// TestRanks checks the precedence of grants. The published grant of a pod that is not bound to the
// node may be outdated, so the annotation of a bound pod wins over it. The published grant of a
// bound pod wins over every annotation. A pod that was deleted by force is no longer bound and
// keeps its CPUs while no other pod has them.
func TestRanks(t *testing.T) {
	m, policy := eight(t)
	empty, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	// All pods get the same CPUs, because each is planned on an empty node.
	grant := func(uid, cpus string) (*v1.Pod, *node.Grant) {
		pod := guaranteed(uid, cpus)
		plan := empty.Plan(bound(t, pod, policy).Pod)
		if plan.Grant == nil {
			t.Fatalf("pod %s does not fit", uid)
		}
		text, err := handover.Encode("n", "m", "p", plan.Grant)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[handover.Annotation] = text
		return pod, plan.Grant
	}
	shows := func(published ...*node.Grant) *fleetsource.Node {
		n := &fleetsource.Node{Here: handover.Here{Node: "n", Machine: "m", Policy: "p"}, Machine: m, Policy: policy, Managing: true, Complete: true, Published: map[string]*node.Grant{}, Revision: 7}
		for _, g := range published {
			n.Published[g.Pod.UID] = g
		}
		return n
	}
	first, firstGrant := grant("first", "2")
	second, secondGrant := grant("second", "2")
	for name, c := range map[string]struct {
		node  *fleetsource.Node
		bound []*v1.Pod
		has   string // the pod that has the CPUs of the first grant
	}{
		"published and gone, others annotated": {shows(firstGrant), []*v1.Pod{second}, "second"},
		"published and bound":                  {shows(firstGrant), []*v1.Pod{first, second}, "first"},
		"both published, one is bound":         {shows(firstGrant, secondGrant), []*v1.Pod{second}, "second"},
		"deleted by force":                     {shows(firstGrant), nil, "first"},
	} {
		var list []shown.Bound
		for _, pod := range c.bound {
			list = append(list, bound(t, pod, policy))
		}
		built, err := c.node.State(list)
		if err != nil {
			t.Fatal(err)
		}
		if g, has := built.State.Grant(c.has); !has || !g.CPUs().Equal(firstGrant.CPUs()) {
			t.Errorf("%s: pod %s has %v (%t), want CPUs %s", name, c.has, g, has, firstGrant.CPUs())
		}
		if err := built.State.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	m, policy := eight(t)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	if _, err := fleetsource.Read(object(t, s), func(string) (*machine.Machine, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("without its machine: %v", err)
	}
	for name, change := range map[string]func(o *v1alpha1.PaddockNode){
		"policy": func(o *v1alpha1.PaddockNode) { o.Status.PolicyDigest = "" },
		"policy of a newer agent": func(o *v1alpha1.PaddockNode) { // A CRD without isolatedCPUs lost it.
			policy.CPU.Isolated = cpu.IsolatedFirst
			var err error
			if o.Status.Policy, o.Status.PolicyDigest, err = objects.Policy(policy); err != nil || o.Status.Policy.IsolatedCPUs == "" {
				t.Fatalf("%+v: %v", o.Status.Policy, err)
			}
			o.Status.Policy.IsolatedCPUs = ""
		},
		"device": func(o *v1alpha1.PaddockNode) { o.Status.Devices = []v1alpha1.DeviceResource{{Resource: "x"}} },
		"grant":  func(o *v1alpha1.PaddockNode) { o.Status.Grants = []v1alpha1.PublishedGrant{{UID: "u", Grant: "{}"}} },
	} {
		o := object(t, s)
		change(o)
		if n, err := fleetsource.Read(o, func(string) (*machine.Machine, error) { return m, nil }); n != nil || err == nil {
			t.Errorf("a wrong %s is read: %v", name, err)
		}
	}
}
