package fleetsource_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// observed returns a state of a kubelet 1.36 with one pod, one lost CPU and lost memory, and its
// object.
func observed(t *testing.T) (*node.State, *v1alpha1.PaddockNode) {
	t.Helper()
	m, policy := eight(t)
	policy.StaticMemory = true
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Apply(s.Plan(bound(t, guaranteed("old", "2"), policy).Pod)); err != nil {
		t.Fatal(err)
	}
	version, err := behavior.Named("kubelet-1.36")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := behavior.Of(version)
	if err != nil {
		t.Fatal(err)
	}
	accounting := s.Memory().Nodes()
	accounting[0].Assignments++
	accounting[0].Reserved[slices.Index(s.Memory().Capacity().Types(), "memory")] += 1 << 30
	s = s.As(rules).Found(s.SharedCPUs().Difference(cpuset.Of(7)), accounting)
	o := object(t, s, "old")
	o.Status.Certainty = &v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}
	if o.Status.DecidedBy, err = objects.DecidedBy(version.String(), s); err != nil {
		t.Fatal(err)
	}
	return s, o
}

// TestKubelet checks that the state of an observed node is that of its kubelet, with what it has
// lost, and that the annotations of pods have no effect there.
func TestKubelet(t *testing.T) {
	s, o := observed(t)
	machines := func(string) (*machine.Machine, error) { return s.Machine(), nil }
	n, err := fleetsource.Read(o, machines)
	if err != nil || n.Kubelet == nil || n.Kubelet.Certainty.Answer != v1alpha1.CertaintyExact || n.Policy.Behavior != s.Policy().Behavior {
		t.Fatalf("%+v, %v", n, err)
	}
	next := guaranteed("next", "2")
	elsewhere, err := node.New(s.Machine(), n.Policy.As(node.Behavior{}))
	if err != nil {
		t.Fatal(err)
	}
	pod := guaranteed("next", "4")
	text, err := handover.Encode("n7", o.Status.Machine, o.Status.PolicyDigest, elsewhere.Plan(bound(t, pod, s.Policy()).Pod).Grant)
	if err != nil {
		t.Fatal(err)
	}
	next.Annotations[handover.Annotation] = text
	built, err := n.State([]shown.Bound{bound(t, guaranteed("old", "2"), s.Policy()), bound(t, next, s.Policy())})
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Apply(s.Plan(bound(t, next, s.Policy()).Pod))
	if err != nil {
		t.Fatal(err)
	}
	g, _ := built.State.Grant("next")
	expected, _ := want.Grant("next")
	if g == nil || !g.SameAssignments(expected) || !slices.Equal(built.Provisional, []string{"next"}) {
		t.Errorf("the pod has %v, want %v; provisional %v", g, expected, built.Provisional)
	}
	if got := built.State.SharedCPUs(); !got.Equal(want.SharedCPUs()) || !built.State.Memory().Equal(want.Memory()) || len(built.State.Residue()) != 1 {
		t.Errorf("shared CPUs %s, want %s; residue %v", got, want.SharedCPUs(), built.State.Residue())
	}
	if err := built.State.Check(); err != nil {
		t.Error(err)
	}
}

// TestKubeletUnsure checks that a reader that does not know the kubelet's rules is unsure, and that
// a wrong object is an error that names the field.
func TestKubeletUnsure(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.PaddockNode)
		reason string
		failed string
	}{
		"other rules":   {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.RulesDigest = strings.Repeat("0", 64) }, reason: "other rules of kubelet 1.36.4"},
		"later version": {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Version = "1.99.0" }, reason: "it is not known how kubelet 1.99.0 decides"},
		"no version":    {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Version = "x" }, reason: "no version of Kubernetes"},
		"no certainty":  {change: func(o *v1alpha1.PaddockNode) { o.Status.Certainty = nil }, reason: "how surely"},
		"unsure": {change: func(o *v1alpha1.PaddockNode) {
			o.Status.Certainty = &v1alpha1.Certainty{Answer: "unsure", Reasons: []string{"why"}}
		}, reason: "why"},
		"another manager": {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Manager = "other" }, failed: `decidedBy: manager "other"`},
		"wrong CPUs":      {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.SharedCPUs = "9-1" }, failed: "sharedCPUs"},
		"wrong NUMA node": {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Memory[0].NUMANode = 77 }, failed: "no NUMA node 77"},
		"wrong group":     {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Memory[0].Together = []int32{0, 78} }, failed: "no NUMA node 78"},
		"too much memory": {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Memory[0].Assigned["memory"] = 1 << 60 }, failed: "1152921504606846976 bytes of memory"},
		"wrong memory":    {change: func(o *v1alpha1.PaddockNode) { o.Status.DecidedBy.Memory[0].Assigned["hugepages-3Mi"] = 1 }, failed: "hugepages-3Mi"},
	} {
		s, o := observed(t)
		c.change(o)
		n, err := fleetsource.Read(o, func(string) (*machine.Machine, error) { return s.Machine(), nil })
		switch {
		case c.failed != "":
			if err == nil || !strings.Contains(err.Error(), c.failed) {
				t.Errorf("%s: got error %v, want %q", name, err, c.failed)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case n.Kubelet.Certainty.Answer != v1alpha1.CertaintyUnsure || !strings.Contains(strings.Join(n.Kubelet.Certainty.Reasons, ";"), c.reason):
			t.Errorf("%s: certainty %+v, want unsure for %q", name, n.Kubelet.Certainty, c.reason)
		}
	}
}
