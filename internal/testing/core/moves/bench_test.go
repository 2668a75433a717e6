package moves_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// searches are searches for moves among 200 pods of different sizes on 8 NUMA nodes, most of which
// have 8 free CPUs. In "one" and "two", the pod needs that many moves. In "none", no moves help. In
// "within", all pods consent only to moves within their NUMA nodes, which does not help. Pods are
// aligned as one, or by container.
var searches = []struct {
	name    string
	cpus    int
	consent request.Consent
	scope   node.Scope
}{
	{"one", 10, request.MoveMemory, node.PodScope},
	{"two", 13, request.MoveMemory, node.PodScope},
	{"none", 15, request.MoveMemory, node.PodScope},
	{"within", 10, request.MoveCPUs, node.PodScope},
	{"container/one", 10, request.MoveMemory, node.ContainerScope},
	{"container/two", 13, request.MoveMemory, node.ContainerScope},
	{"container/none", 15, request.MoveMemory, node.ContainerScope},
	{"container/within", 10, request.MoveCPUs, node.ContainerScope},
}

// TestFindPlansFewSets checks that the counts of what is free on each NUMA node exclude all but a
// few sets, so that a search takes milliseconds.
func TestFindPlansFewSets(t *testing.T) {
	for _, c := range searches {
		found := moves.Find(fragmented(t, c.consent, c.scope), guaranteed("new", c.cpus, request.NoMoves), moves.Terms{Bytes: 1 << 50})
		if found.Plans > 50 {
			t.Errorf("%s: %d plans", c.name, found.Plans)
		}
	}
}

// BenchmarkFind measures these searches.
func BenchmarkFind(b *testing.B) {
	for _, c := range searches {
		b.Run(c.name, func(b *testing.B) {
			s := fragmented(b, c.consent, c.scope)
			pod := guaranteed("new", c.cpus, request.NoMoves)
			if s.Plan(pod).Rejection == nil {
				b.Fatal("it fits without moves")
			}
			var found moves.Found
			b.ReportAllocs()
			for b.Loop() {
				found = moves.Find(s, pod, moves.Terms{Bytes: 1 << 50})
			}
			b.ReportMetric(float64(found.Plans), "plans")
			if found.Set != nil {
				b.ReportMetric(float64(len(found.Set.Moves)), "moves")
			}
			if found.Cut {
				b.Fatal("the search was cut")
			}
		})
	}
}

func guaranteed(name string, cpus int, consent request.Consent) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed,
			Containers: []request.Container{{
				Name: "c", Type: request.App, CPUs: cpus, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Equivalent: true,
				Memory: request.Amounts{{Resource: machine.Memory, Value: int64(cpus) * 256 * mib}},
			}},
		}, Notes: request.Notes{Moves: consent},
	}
}

// fragmented returns a node with 8 NUMA nodes of 64 CPUs, under single-numa-node, with 200 pods of
// 1 to 3 CPUs that may be moved and some that may not. 64 CPUs are free.
func fragmented(b testing.TB, consent request.Consent, scope node.Scope) *node.State {
	b.Helper()
	m := scenario.Machine("sockets=2 numa=4 cores=32 threads=2 memory=64Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 1 << 30}},
	})
	if err != nil {
		b.Fatal(err)
	}
	admit := func(pod request.Pod) {
		p := s.Plan(pod)
		if s, err = s.Apply(p); err != nil || p.Rejection != nil {
			b.Fatal(err, p.Rejection)
		}
	}
	for n := range 8 {
		pod := guaranteed(fmt.Sprintf("gone%d", n), 8, request.NoMoves)
		pod.Containers[0].Given = []request.Given{{Resource: "example.com/nic", Name: fmt.Sprint(n), Nodes: mask.Of(n)}}
		admit(pod)
	}
	for i := range 200 {
		admit(guaranteed(fmt.Sprintf("p%03d", i), 1+i%3, consent))
	}
	for _, unit := range m.CPUNodes() {
		if left := s.AvailableCPUs().IntersectionLen(unit.CPUs); left > 0 {
			admit(guaranteed(fmt.Sprintf("rest%d", unit.ID), left, request.NoMoves))
		}
	}
	for n := range 8 {
		s = s.Release(fmt.Sprintf("gone%d", n))
	}
	return s
}
