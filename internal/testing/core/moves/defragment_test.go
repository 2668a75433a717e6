package moves_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// probe returns the plan of a pod of that many CPUs, or nil if the pod is not on one NUMA node.
func probe(s *node.State, cpus int) *node.Plan {
	pod := request.Pod{Identity: request.Identity{UID: "probe", Namespace: "default", Name: "probe"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Equivalent: true,
	}}}}
	if s.Policy().StaticMemory {
		pod.Containers[0].Memory = request.Amounts{{Resource: machine.Memory, Value: mib}}
	}
	p := s.Plan(pod)
	if p.Rejection != nil || p.Grant.CPUs().Len() != cpus || len(s.Machine().NodesOf(p.Grant.CPUs()).Nodes()) != 1 {
		return nil
	}
	return p
}

func roomiest(s *node.State) int {
	for n := s.AvailableCPUs().Len(); n > 0; n-- {
		if probe(s, n) != nil {
			return n
		}
	}
	return 0
}

// outcome is the gain of moves.
type outcome struct {
	cpus  int
	bytes int64
	pods  int
}

func (a outcome) compare(b outcome) int {
	return cmp.Or(cmp.Compare(b.cpus, a.cpus), cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.pods, b.pods))
}

// gains tries every set of at most two pods that consent, in every order, for every probe that
// takes everything that is free on a NUMA node when the set is gone.
func gains(s *node.State) outcome {
	best := outcome{cpus: roomiest(s)}
	var sets [][]*node.Grant
	for i, a := range s.Grants() {
		if a.Pod.Moves != request.MoveMemory {
			continue
		}
		sets = append(sets, []*node.Grant{a})
		for _, b := range s.Grants()[:i] {
			if b.Pod.Moves == request.MoveMemory {
				sets = append(sets, []*node.Grant{a, b}, []*node.Grant{b, a})
			}
		}
	}
	for _, set := range sets {
		left := s
		for _, g := range set {
			left = left.Release(g.Pod.UID)
		}
		for n := left.AvailableCPUs().Len(); n >= max(1, best.cpus); n-- {
			p := probe(left, n)
			if p == nil || !left.AvailableCPUs().Intersection(s.Machine().CPUsOf(s.Machine().NodesOf(p.Grant.CPUs()))).Equal(p.Grant.CPUs()) {
				continue
			}
			at, err := left.Apply(p)
			if err != nil {
				continue
			}
			if got, ok := moved(s, at, set); ok && got.cpus > roomiest(s) && got.compare(best) < 0 {
				best = got
			}
		}
	}
	return best
}

// moved replans a set beside a probe, in the order of the set, and moves it in either order.
func moved(s, at *node.State, set []*node.Grant) (best outcome, ok bool) {
	var to []*node.Grant
	best.pods = len(set)
	for _, g := range set {
		p := at.Replan(g)
		if p.Rejection != nil {
			return best, false
		}
		for i := range g.Containers {
			if g.Containers[i].Affinity.Preferred && !p.Grant.Containers[i].Affinity.Preferred && !g.Containers[i].Removed {
				return best, false
			}
		}
		best.bytes += across(g, p.Grant)
		to = append(to, p.Grant)
		var err error
		if at, err = at.Apply(p); err != nil {
			return best, false
		}
	}
	for range len(to) {
		slices.Reverse(to)
		now, err := s, error(nil)
		for _, g := range to {
			if err == nil {
				now, err = now.Move(g)
			}
		}
		if err == nil {
			best.cpus = max(best.cpus, roomiest(now))
		}
	}
	return best, best.cpus > 0
}

// across returns the memory of a move that gets other NUMA nodes.
func across(from, to *node.Grant) (bytes int64) {
	if len(to.PoolMemory) > 0 && len(from.PoolMemory) > 0 {
		if from.PoolMemory[0].Nodes != to.PoolMemory[0].Nodes {
			bytes = to.PoolMemory[0].Size
		}
		return bytes
	}
	for i := range to.Containers {
		if from.Containers[i].MemoryNodes != to.Containers[i].MemoryNodes {
			for _, b := range to.Containers[i].Memory {
				bytes += b.Size
			}
		}
	}
	return bytes
}

// simple reports whether the policy rejects pods that are not aligned, and each pod that consents
// is on one NUMA node, and would have as many CPUs elsewhere as it has here.
func simple(s *node.State) bool {
	if policy := s.Policy(); !policy.Strict() {
		return false
	}
	for _, g := range s.Grants() {
		there := s.Release(g.Pod.UID).Replan(g).Grant
		if g.Pod.Moves == request.MoveMemory && (len(s.Machine().NodesOf(g.CPUs()).Nodes()) > 1 || there == nil || there.CPUs().Len() != g.CPUs().Len()) {
			return false
		}
	}
	return true
}

// TestDefragment checks that the moves can be made one after the other, that each state is valid,
// that pods that do not consent stay, and that the gain is what it claims. Under a policy that
// rejects pods that are not aligned, the gain is no less than that of an exhaustive search for two
// pods that leave a NUMA node. Pods on several NUMA nodes, and pods that need less elsewhere, are
// exceptions.
func TestDefragment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fragment(t, drawNode(t))
		most := rapid.SampledFrom([]int{2, 1, 4, 8}).Draw(t, "most")
		g := moves.Defragment(s, most, moves.Terms{Bytes: 1 << 50})
		if g.Before.CPUs != roomiest(s) || len(g.Moves) > most || len(g.States) != len(g.Moves) || g.Cut {
			t.Fatalf("%d moves, %d states, before %+v, want %d; cut %v", len(g.Moves), len(g.States), g.Before, roomiest(s), g.Cut)
		}
		at, bytes := s, int64(0)
		for i, m := range g.Moves {
			next, err := at.Move(m.To)
			if err == nil {
				err = next.Check()
			}
			if err != nil || m.From.Pod.Moves != request.MoveMemory || len(at.Grants()) != len(next.Grants()) {
				t.Fatalf("move %d: %v", i, err)
			}
			if now, _ := at.Grant(m.From.Pod.UID); !now.CPUs().Equal(m.From.CPUs()) {
				t.Fatalf("move %d begins at %s, the pod is on %s", i, m.From.CPUs(), now.CPUs())
			}
			at, bytes = next, bytes+m.Bytes
		}
		if g.After.CPUs != roomiest(at) || g.Bytes != bytes || (len(g.Moves) > 0) != (g.After.CPUs > g.Before.CPUs) {
			t.Fatalf("%d moves: after %+v, want %d; %d bytes, want %d", len(g.Moves), g.After, roomiest(at), g.Bytes, bytes)
		}
		if s.Policy().Topology == node.TopologyNone {
			if len(g.Moves) > 0 {
				t.Fatal("a policy that does not align gains from moves")
			}
			return
		}
		if got := (outcome{g.After.CPUs, g.Bytes, len(g.Moves)}); most > 1 && simple(s) {
			if want := gains(s); got.compare(want) > 0 {
				t.Fatalf("%+v, an exhaustive search finds %+v", got, want)
			}
		}
		carried := moves.Defragment(s, most, moves.Terms{Bytes: 1 << 50, BothPlaces: true})
		at = s
		for i, m := range carried.Moves {
			held, err := at.BeginMove(m.To)
			if err != nil {
				t.Fatalf("move %d of a node that carries them out: %v", i, err)
			}
			at = held.EndMove(m.To.Pod.UID, true)
		}
		if carried.After.CPUs != roomiest(at) {
			t.Fatalf("the node has room for %d CPUs after the moves, want %d", roomiest(at), carried.After.CPUs)
		}
		again := moves.Defragment(s, most, moves.Terms{Bytes: 1 << 50})
		if !slices.EqualFunc(again.Moves, g.Moves, func(a, b moves.Move) bool {
			return a.From.Pod.UID == b.From.Pod.UID && a.To.CPUs().Equal(b.To.CPUs())
		}) {
			t.Fatal("again it finds other moves")
		}
	})
}

// TestDefragmentWhenAPartLeaves checks that, in scope container, a part of a pod can stay while the
// rest leaves. The gain is what is free then, not what the search was for.
func TestDefragmentWhenAPartLeaves(t *testing.T) {
	s := cutUp(t)
	g := moves.Defragment(s, 2, moves.Terms{Bytes: 1 << 50})
	if len(g.Moves) != 1 || g.Moves[0].From.Pod.UID != "two" {
		t.Fatalf("%+v", g.Moves)
	}
	if got, want := g.After.CPUs, roomiest(g.States[0]); got != want || want != 7 || g.Before.CPUs != 5 {
		t.Errorf("from %d to %d CPUs, and there is room for %d; want 5 to 7", g.Before.CPUs, got, want)
	}
}

// TestDefragmentWhereThePlannerPrefersAnotherNode frees two CPUs on NUMA node 2. While both pods of
// the set are gone, the planner would take two CPUs on NUMA node 1, to which one of the pods comes
// back and the other one moves.
func TestDefragmentWhereThePlannerPrefersAnotherNode(t *testing.T) {
	s := emptyOf(t, 3, 2, node.PodScope)
	short := guaranteed("short", 2, request.MoveMemory) // It has the CPU of its init container, because the other container has ended.
	first := guaranteed("first", 1, request.MoveMemory).Containers[0]
	first.Name, first.Type = "init", request.Init
	short.Containers = append([]request.Container{first}, short.Containers...)
	s = admitAll(t, s, guaranteed("gone", 1, request.NoMoves), guaranteed("a", 2, request.NoMoves), guaranteed("three", 3, request.MoveMemory),
		guaranteed("gone too", 1, request.NoMoves), guaranteed("b", 2, request.NoMoves), short)
	s = s.Release("gone").Release("gone too").RemoveContainer("short", "c")
	if got := s.AvailableCPUs().String(); got != "1,7,11" {
		t.Fatalf("%s are free", got)
	}
	if g := moves.Defragment(s, 2, moves.Terms{Bytes: 1 << 50}); g.Before.CPUs != 1 || g.After.CPUs != 2 {
		t.Errorf("from %d to %d CPUs, want 1 to 2", g.Before.CPUs, g.After.CPUs)
	}
}

// cutUp returns a node of two NUMA nodes with 8 CPUs each, under single-numa-node in scope
// container. CPU 0 is reserved. 2 CPUs are free on the first NUMA node, 5 on the second. On the
// second, pod "two" has two containers, of 2 CPUs and of 1 CPU, and may move anywhere. So may pod
// "one" on the first, with two containers of 1 CPU.
func cutUp(t *testing.T) *node.State {
	t.Helper()
	s := emptyOf(t, 2, 4, node.ContainerScope)
	pair := func(name string, first int) request.Pod {
		pod, second := guaranteed(name, first, request.MoveMemory), guaranteed(name, 1, request.MoveMemory).Containers[0]
		second.Name = "second"
		pod.Containers = append(pod.Containers, second)
		return pod
	}
	return admitAll(t, s, guaranteed("stays", 3, request.NoMoves), pair("one", 1), guaranteed("gone", 2, request.NoMoves), pair("two", 2)).Release("gone")
}

// emptyOf returns a node with that many NUMA nodes and that many cores of two threads on each,
// under single-numa-node.
func emptyOf(t *testing.T, numa, cores int, scope node.Scope) *node.State {
	t.Helper()
	m := scenario.Machine(fmt.Sprintf("numa=%d cores=%d threads=2 numbering=adjacent memory=4Gi", numa, cores))
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func admitAll(t *testing.T, s *node.State, pods ...request.Pod) *node.State {
	t.Helper()
	for _, pod := range pods {
		next, err := s.Apply(s.Plan(pod))
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

// BenchmarkDefragment runs with 200 pods on 8 NUMA nodes of 64 CPUs each.
func BenchmarkDefragment(b *testing.B) {
	for _, most := range []int{2, 4, 8, 16} {
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			s := fragmented(b, request.MoveMemory, node.PodScope)
			var g moves.Gain
			for b.Loop() {
				g = moves.Defragment(s, most, moves.Terms{Bytes: 1 << 50})
			}
			b.ReportMetric(float64(g.Plans), "plans")
			b.ReportMetric(float64(len(g.Moves)), "moves")
			b.ReportMetric(float64(g.After.CPUs-g.Before.CPUs), "CPUs")
			if g.Cut {
				b.ReportMetric(1, "cut")
			}
		})
	}
}
