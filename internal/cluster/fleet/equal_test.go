package fleet

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestEqualNodes checks that nodes that share a state, as those of a kind do until they get a pod,
// give the answers that each of them would give alone. Some differ in their amounts, and some pods
// may not run on all of them.
func TestEqualNodes(t *testing.T) {
	m := hardware(t, 64*gib, 8, 8)
	rapid.Check(t, func(t *rapid.T) {
		scoring := rapid.SampledFrom(Scorings()).Draw(t, "scoring")
		var nodes []Node
		for k := range rapid.IntRange(1, 2).Draw(t, "kinds") {
			first := member1(t, fmt.Sprint("k", k, "-0"), m, policyOf(node.TopologySingleNUMANode, node.PodScope))
			first.Allocatable.Milli = 14_000
			for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
				n := first
				n.Name = fmt.Sprint("k", k, "-", i)
				if rapid.IntRange(0, 3).Draw(t, "used") == 0 {
					n.Used.Milli = 9000
				}
				nodes = append(nodes, n)
			}
		}
		f, err := New(NewRanking(scoring, nil), nodes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 20).Draw(t, "pods") {
			pod := guaranteed(fmt.Sprint("p", i), rapid.IntRange(1, 6).Draw(t, "cpus"), gib)
			if rapid.IntRange(0, 3).Draw(t, "allowed") == 0 {
				pod.Constraint, pod.Allowed = "not the first", func(n *Node) bool { return n.Name != "k0-0" }
			}
			want := dumb(f, pod)
			got, err := f.Fit(pod)
			if err != nil {
				t.Fatal(err)
			}
			if got.Node != want {
				t.Fatalf("pod %d of %d CPUs is placed on %q, want %q", i, pod.Containers[0].CPUs, got.Node, want)
			}
		}
	})
}

// TestTypicalRequests checks that a ranking keeps the requests with the most CPU time, so that each
// bound of a cost takes a limited time.
func TestTypicalRequests(t *testing.T) {
	shapes := requests(maxWeighed + 50)
	r := NewRanking(LeastStranded, shapes)
	var least, sum int64
	for i := range r.weights {
		w := &r.weights[i]
		sum += w.share
		if milli := w.share * int64(w.cpus); least == 0 || milli < least {
			least = milli
		}
	}
	if len(r.weights) != maxWeighed || sum > unit || sum < unit-maxWeighed {
		t.Errorf("%d requests with the shares %d, want %d with about %d", len(r.weights), sum, maxWeighed, unit)
	}
	var total int64
	kept := map[int64]bool{}
	for i := range r.weights {
		kept[r.weights[i].asks.Memory] = true
	}
	for _, s := range shapes {
		if kept[s.Pod.Asks.Memory] {
			total += s.Count
		}
	}
	for _, s := range shapes {
		if share := int64(float64(s.Count) / float64(total) * unit); !kept[s.Pod.Asks.Memory] && share*s.Pod.Asks.Milli/1000 > least {
			t.Errorf("a request with more CPU time than a typical one is none: %d of %d CPUs", s.Count, s.Pod.Asks.Milli/1000)
		}
	}
}
