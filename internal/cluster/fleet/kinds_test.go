package fleet

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// TestKindsOfNodes checks that nodes have the same fitting exactly if they are of the same kind,
// also after the ranking has forgotten it, and that a ranking that runs for long keeps few of them.
func TestKindsOfNodes(t *testing.T) {
	r, m := NewRanking(BestFit, nil), hardware(t, 64*gib, 8, 8)
	policy := policyOf(node.TopologySingleNUMANode, node.PodScope)
	of := func(m *machine.Machine, p node.Policy, milli int64) *fitting {
		n := member1(t, "n", m, p)
		n.Allocatable.Milli = milli
		return r.fitting(&n)
	}
	first := of(m, policy, 14_000)
	for range 3 { // A node has another state after each of its changes.
		if of(m, policyOf(node.TopologySingleNUMANode, node.PodScope), 14_000) != first {
			t.Fatal("another state of a node is another kind of node")
		}
	}
	if of(hardware(t, 64*gib, 8, 8), policy, 14_000) != first {
		t.Error("an equal machine is another kind of node")
	}
	if of(m, policyOf(node.TopologyRestricted, node.PodScope), 14_000) == first || of(m, policy, 13_000) == first || of(hardware(t, 64*gib, 4, 8), policy, 14_000) == first {
		t.Error("a node with another policy, other amounts or another machine is of the same kind")
	}
	for milli := range int64(3 * maxKinds) {
		of(m, policy, 1000+milli)
	}
	if r.kinds.count > maxKinds || len(r.kinds.byKey) > maxKinds {
		t.Errorf("%d kinds and %d keys are kept, want at most %d", r.kinds.count, len(r.kinds.byKey), maxKinds)
	}
	if again := of(m, policy, 14_000); again.key != first.key || again.worth != first.worth {
		t.Error("a kind that was forgotten is another one")
	}
}

// TestKindIsWeighedOnce checks that goroutines that need a new kind of node at the same time get
// the same fitting, and that its worth is there when they do.
func TestKindIsWeighedOnce(t *testing.T) {
	for range 20 {
		r := NewRanking(BestFit, requests(3))
		n := member1(t, "n", hardware(t, 64*gib, 8, 8), policyOf(node.TopologySingleNUMANode, node.PodScope))
		var found [8]*fitting
		var all sync.WaitGroup
		for i := range found {
			all.Go(func() {
				own := n
				if found[i] = r.fitting(&own); found[i].worth == nil {
					t.Error("a kind of node has no worth yet")
				}
			})
		}
		all.Wait()
		for _, f := range found {
			if f != found[0] {
				t.Fatal("a kind of node has two fittings")
			}
		}
	}
}

// BenchmarkNewStates measures a view of a node whose state is new, as a scheduler makes it after a
// publication, while others make views of other nodes: of four kinds of machines, under policies
// that are equal and not the same.
func BenchmarkNewStates(b *testing.B) {
	var machines []*machine.Machine
	for k := range 4 {
		machines = append(machines, hardware(b, 64*gib, 16*(k+1), 16*(k+1)))
	}
	for _, nodes := range []int{10, 1000, 5000} {
		for _, parallel := range []int{1, 16} {
			b.Run(fmt.Sprintf("nodes=%d/goroutines=%d", nodes, parallel), func(b *testing.B) {
				members := make([]Node, nodes)
				for i := range members {
					members[i] = member1(b, fmt.Sprint("node-", i), machines[i%len(machines)], policyOf(node.TopologySingleNUMANode, node.PodScope))
				}
				pod := guaranteed("p", 2, gib)
				ranking := NewRanking(BestFit, nil)
				var next atomic.Int64
				b.SetParallelism((parallel + 1) / 2) // Two threads.
				if parallel == 1 {
					b.SetParallelism(1)
				}
				b.ReportAllocs()
				b.ResetTimer()
				work := func() {
					n := members[int(next.Add(1))%nodes]
					s, err := n.State.Apply(n.State.Plan(pod.Pod))
					if err != nil {
						b.Error(err)
					}
					n.State = s
					ranking.View(n)
				}
				if parallel == 1 {
					for range b.N {
						work()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						work()
					}
				})
			})
		}
	}
}
