package fleet

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestPart checks that a part of a fleet chooses as the fleet does for a pod that may run only
// there.
func TestPart(t *testing.T) {
	s, err := node.New(hardware(t, 64*gib, 8, 8), policyOf(node.TopologySingleNUMANode, node.PodScope))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []Node
	for i := range 6 {
		nodes = append(nodes, Node{Name: fmt.Sprint("n", i), State: s, Allocatable: Amounts{Milli: 16000, Memory: 128 * gib, Pods: 110}})
	}
	whole, err := New(NewRanking(LeastStranded, nil), nodes)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"n4", "n1", "gone"}
	for i := range 7 { // Each node takes three: two at most on a NUMA node of 8 or 7 CPUs.
		pod := requests(1)[0].Pod
		pod.UID, pod.Containers[0].CPUs, pod.Asks.Milli = fmt.Sprint(i), 5, 5000
		only := pod
		only.Allowed, only.Constraint = func(n *Node) bool { return n.Name == "n1" || n.Name == "n4" }, "two"
		part := whole.Part(names)
		got, found, _, err := part.Best(pod)
		want, is, _, err2 := whole.Best(only)
		if err != nil || err2 != nil || got != want || found != is {
			t.Fatalf("pod %d: %s %v, want %s %v; %v, %v", i, got, found, want, is, err, err2)
		}
		if !found {
			continue
		}
		if _, err := whole.Place(got, pod); err != nil {
			t.Fatal(err)
		}
	}
}
