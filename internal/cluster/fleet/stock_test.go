package fleet

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestStock checks that every CPU is counted once, with two NUMA nodes of 8 CPUs, of which CPUs 0
// and 1 are reserved, a pod with 4 exclusive CPUs, and a pod with a pool of 4 CPUs, of which a
// container has 2.
func TestStock(t *testing.T) {
	f, err := New(NewRanking(LeastStranded, nil), []Node{member1(t, "n", hardware(t, 32*gib, 8, 8), policyOf(node.TopologySingleNUMANode, node.PodScope))})
	if err != nil {
		t.Fatal(err)
	}
	pool := guaranteed("pool", 2, gib)
	pool.Kind, pool.BudgetCPUs, pool.BudgetCPUMilli, pool.BudgetMemory = request.PodLevel, 4, 4000, request.Amounts{{Resource: request.Memory, Value: 2 * gib}}
	pool.Containers = append(pool.Containers, request.Container{Name: "rest", Type: request.App, Sharing: request.FractionalCPU, Memory: request.Amounts{{Resource: request.Memory, Value: gib}}, Equivalent: true})
	for _, pod := range []Pod{guaranteed("own", 4, gib), pool} {
		if p, err := f.Fit(pod); err != nil || p.Node == "" {
			t.Fatalf("pod %s: %+v, %v", pod.Name, p, err)
		}
	}
	got := f.Views()[0].Stock()
	for _, s := range got {
		if s.Shared+s.Exclusive+s.Pooled+s.Free != 8 || s.Stranded < 0 || s.Stranded > float64(s.Free) {
			t.Errorf("NUMA node %d: %+v do not add up to its 8 CPUs", s.NUMANode, s)
		}
	}
	if e, p := got[0].Exclusive+got[1].Exclusive, got[0].Pooled+got[1].Pooled; e != 6 || p != 2 || got[0].Shared != 2 || got[1].Shared != 0 {
		t.Errorf("%+v: want 6 exclusive CPUs, 2 pooled, and 2 shared on NUMA node 0", got)
	}
}
