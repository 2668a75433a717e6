package clusterstate_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// TestKubelet checks that a node whose kubelet decides can be planned for, without the CPUs that
// the kubelet has lost, and that a note has the reason if it is unsure.
func TestKubelet(t *testing.T) {
	k := clustertest.New(t, 8)
	rules, err := behavior.Of(behavior.Version{Minor: 36, Patch: 4})
	if err != nil {
		t.Fatal(err)
	}
	state := k.State.As(rules).Found(k.State.SharedCPUs().Difference(cpuset.Of(6, 7)), nil)
	for answer, note := range map[string]string{"exact": "", "unsure": "it is unsure what its kubelet has: predictions differ"} {
		c := newCluster(k)
		setNode(c, k, "n1", func(_ *v1.Node, p *v1alpha1.PaddockNode) {
			var err error
			if p.Status.DecidedBy, err = objects.DecidedBy("1.36.4", state); err != nil {
				t.Fatal(err)
			}
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionManaging, Status: metav1.ConditionFalse}, {Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
			p.Status.Certainty = &v1alpha1.Certainty{Answer: answer}
			if answer == v1alpha1.CertaintyUnsure {
				p.Status.Certainty.Reasons = []string{"predictions differ"}
			}
		})
		m := c.Moment()
		if len(m.Nodes) != 1 || len(m.Problems) != 0 {
			t.Fatalf("%s: %d nodes, problems %v", answer, len(m.Nodes), m.Problems)
		}
		n := m.Nodes[0]
		if !strings.HasPrefix(n.Policy, "kubelet 1.36 decides: ") || n.State.AvailableCPUs().Intersects(cpuset.Of(6, 7)) {
			t.Errorf("%s: policy %q, available CPUs %s", answer, n.Policy, n.State.AvailableCPUs())
		}
		if got := len(m.Notes) > 0; got != (note != "") || got && m.Notes[0].Text != note {
			t.Errorf("%s: notes %v, want %q", answer, m.Notes, note)
		}
	}
}
