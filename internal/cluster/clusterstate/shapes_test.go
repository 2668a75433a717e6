package clusterstate_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// TestShapesOfMixedGates checks that each pod counts once if nodes read pods under different
// feature gates, as halfway from stock kubelets to Paddock, and that a pod with pod-level resources
// has a reading for the nodes that do not know these.
func TestShapesOfMixedGates(t *testing.T) {
	old := clustertest.New(t, 8)
	policy := old.State.Policy()
	policy.PodLevelResources, policy.PodLevelManagers = false, false
	s, err := node.New(old.State.Machine(), policy)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []*clustertest.Kind{old, clustertest.Of(t, s, 8)}
	c := clusterstate.New(func(string) (*machine.Machine, error) { return old.State.Machine(), nil })
	for i, name := range []string{"n0", "n1"} {
		setNode(c, kinds[i], name)
	}
	whole := clustertest.Pod("whole", "n1", "4")
	whole.Spec.Resources = whole.Spec.Containers[0].Resources.DeepCopy()
	for name, pod := range map[string]string{"a": "n0", "b": "n1", "c": "n1"} {
		if err := c.SetPod("default/"+name, clustertest.Pod(name, pod, "2")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetPod("default/whole", whole); err != nil {
		t.Fatal(err)
	}
	if m := c.Moment(); len(m.Nodes) != 2 {
		t.Fatalf("%d nodes, problems %v", len(m.Nodes), m.Problems)
	}
	counts := map[int]int64{}
	for _, shape := range c.Shapes() {
		cpus := shape.Pod.Containers[0].CPUs
		counts[cpus] += shape.Count
		if readings := len(shape.Pod.Readings); cpus == 2 && readings != 0 || cpus == 4 && readings != 1 {
			t.Errorf("the pods with %d CPUs have %d readings", cpus, readings)
		}
	}
	if counts[2] != 3 || counts[4] != 1 || len(counts) != 2 {
		t.Errorf("pods by their CPUs: %v, want 3 with 2 and 1 with 4", counts)
	}
}
