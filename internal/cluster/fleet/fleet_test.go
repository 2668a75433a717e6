package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const gib = 1 << 30

// hardware returns a machine with two threads per core and one NUMA node for each size, which is
// its number of CPUs.
func hardware(t testing.TB, memory int64, sizes ...int) *machine.Machine {
	t.Helper()
	var d machine.Description
	next := 0
	for id, size := range sizes {
		n := machine.NodeDescription{ID: id, Memory: memory}
		for k := 0; k < size; k += 2 {
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Threads: []int{next, next + 1}, Uncore: next / 8})
			next += 2
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func policyOf(topology node.TopologyPolicy, scope node.Scope) node.Policy {
	return node.Policy{
		Topology: topology, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 1), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}}, PodLevelResources: true, PodLevelManagers: true,
	}
}

func member1(t rapid.TB, name string, m *machine.Machine, p node.Policy) Node {
	t.Helper()
	s, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	return Node{Name: name, Kind: "k", State: s, Allocatable: Amounts{
		Milli: int64(s.AllocatableCPUs().Len()) * 1000, Memory: 1 << 40, Pods: DefaultPods,
	}}
}

// guaranteed returns a pod with one container that has this many exclusive CPUs and bytes.
func guaranteed(name string, cpus int, memory int64) Pod {
	milli := int64(cpus) * 1000
	amounts := request.Amounts{{Resource: request.Memory, Value: memory}}
	return Pod{Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, Memory: amounts, Equivalent: true, CPURequest: milli, CPULimit: milli,
	}}}}, Asks: Amounts{Milli: milli, Memory: memory, Pods: 1}}
}

// dumb returns the best node by asking every node and comparing all costs.
func dumb(f *Fleet, pod Pod) string {
	best, least := "", Cost{}
	for _, m := range f.members {
		if m.Allocatable.Short(m.Used, pod.Asks) != "" || pod.Allowed != nil && !pod.Allowed(&m.Node) {
			continue
		}
		plan := m.State.Plan(pod.Pod)
		if plan.Rejection != nil || barsFrom(f, pod, &m.Node) {
			continue
		}
		if cost := m.costOf(&pod, plan.Grant); best == "" || cost.less(least) {
			best, least = m.Name, cost
		}
	}
	return best
}

// TestBestIsTheBestOfAll compares the search with asking every node, over histories of pods that
// come and go on a fleet of several kinds. At the end, it compares every node with planning the
// same pods on that node alone.
func TestBestIsTheBestOfAll(t *testing.T) {
	sockets := scenario.Machine("numa=4 cores=4 uncore=4 memory=16Gi")
	small, large := hardware(t, 32*gib, 8, 8), hardware(t, 16*gib, 4, 4, 12, 4)
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			topology := node.TopologyPolicy(rapid.IntRange(0, 3).Draw(t, "policy"))
			policy := policyOf(topology, node.Scope(rapid.IntRange(0, 1).Draw(t, "scope")))
			policy.CPU.AlignBySocket = topology != node.TopologySingleNUMANode && rapid.Bool().Draw(t, "align by socket")
			n := member1(t, fmt.Sprint("n", i), rapid.SampledFrom([]*machine.Machine{small, large, sockets}).Draw(t, "machine"), policy)
			nodes = append(nodes, n)
		}
		f, err := New(NewRanking(Scoring(rapid.IntRange(0, 3).Draw(t, "scoring")), nil), nodes)
		if err != nil {
			t.Fatal(err)
		}
		var shapes []Shape
		for range rapid.IntRange(0, 4).Draw(t, "shapes") {
			shape := guaranteed("s", rapid.IntRange(1, 20).Draw(t, "cpus"), int64(rapid.IntRange(0, 20).Draw(t, "gib"))*gib)
			shapes = append(shapes, Shape{shape, rapid.Int64Range(1, 3).Draw(t, "count")})
		}
		f.Weigh(shapes)
		if rapid.Bool().Draw(t, "rules") {
			f.Obey(apart{})
		}
		history(t, f, nodes)
	})
}

func history(t *rapid.T, f *Fleet, nodes []Node) {
	type placed struct {
		pod  Pod
		node string
	}
	var pods []placed
	alone := map[string]*node.State{}
	for _, n := range nodes {
		alone[n.Name] = n.State
	}
	for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
		if len(pods) > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
			k := rapid.IntRange(0, len(pods)-1).Draw(t, "which")
			p := pods[k]
			if err := f.Remove(p.node, p.pod.UID, p.pod.Asks); err != nil {
				t.Fatal(err)
			}
			alone[p.node] = alone[p.node].Release(p.pod.UID)
			pods = append(pods[:k], pods[k+1:]...)
			continue
		}
		pod := guaranteed(fmt.Sprint("p", i), rapid.IntRange(0, 14).Draw(t, "cpus"), int64(rapid.IntRange(1, 20).Draw(t, "gib"))*gib)
		if one := rapid.IntRange(0, 9).Draw(t, "only"); one < len(nodes) {
			only := fmt.Sprint("n", one)
			pod.Allowed, pod.Constraint = func(n *Node) bool { return n.Name == only }, only
		}
		vary(t, &pod)
		want := dumb(f, pod)
		if verdicts, best, err := Judge(t.Context(), f.Views(), pod); f.rules == nil && (err != nil || best < 0 && want != "" || best >= 0 && (f.members[best].Name != want || !verdicts[best].Fits)) {
			t.Fatalf("Judge chooses %d of %+v for pod %s; asking every node gives %q", best, verdicts, pod.ID(), want)
		}
		got, err := f.Fit(pod)
		if err != nil {
			t.Fatal(err)
		}
		if got.Node != want {
			t.Fatalf("pod %s goes to %q; asking every node gives %q", pod.ID(), got.Node, want)
		}
		if want == "" {
			checkCounts(t, f, pod, got.Why)
			continue
		}
		pods = append(pods, placed{pod, want})
		plan := alone[want].Plan(pod.Pod)
		if alone[want], err = alone[want].Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatalf("node %s alone: %v, %v", want, plan.Rejection, err)
		}
	}
	for name, s := range alone {
		n, _ := f.Node(name)
		if err := n.State.Check(); err != nil {
			t.Fatal(err)
		}
		for _, g := range s.Grants() {
			if other, ok := n.State.Grant(g.Pod.UID); !ok || !other.CPUs().Equal(g.CPUs()) {
				t.Fatalf("node %s has another grant for %s than the node alone", name, g.Pod.ID())
			}
		}
	}
}

// vary turns some pods into pods that take more CPUs than their app containers, or none.
func vary(t *rapid.T, pod *Pod) {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		pod.Kind = request.Unmanaged
	case 1:
		first := pod.Containers[0]
		first.Name, first.Type, first.CPUs = "init", request.Init, rapid.IntRange(0, 9).Draw(t, "init")
		second := first
		second.Name, second.CPUs = "init2", rapid.IntRange(0, 9).Draw(t, "init2")
		pod.Containers = []request.Container{first, second, pod.Containers[0]}
	}
}

// BenchmarkFill fills a fleet with pods of a few sizes until 20 pods in a row do not fit.
func BenchmarkFill(b *testing.B) {
	m := hardware(b, 256*gib, 48, 48)
	for _, scoring := range Scorings() {
		for _, size := range []int{1500, 10000} {
			b.Run(fmt.Sprintf("scoring=%s/nodes=%d", scoring, size), func(b *testing.B) {
				for range b.N {
					var nodes []Node
					for i := range size {
						nodes = append(nodes, member1(b, fmt.Sprintf("n%05d", i), m, policyOf(node.TopologySingleNUMANode, node.PodScope)))
					}
					f, err := New(NewRanking(scoring, nil), nodes)
					if err != nil {
						b.Fatal(err)
					}
					fill(b, f)
				}
			})
		}
	}
}

func fill(b *testing.B, f *Fleet) {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 2, 2, 4, 4, 4, 6, 8, 8, 10, 12, 12, 16, 20, 24, 32, 40, 48}
	var shapes []Shape
	for _, s := range sizes {
		shapes = append(shapes, Shape{guaranteed("x", s, int64(s)*2*gib), 1})
	}
	f.Weigh(shapes)
	missed, placed, cpus := 0, 0, 0
	for i := 0; missed < 20; i++ {
		size := sizes[random.IntN(len(sizes))]
		p, err := f.Fit(guaranteed(fmt.Sprint("p", i), size, int64(size)*2*gib))
		if err != nil {
			b.Fatal(err)
		}
		if p.Node == "" {
			missed++
			continue
		}
		missed = 0
		placed++
		cpus += size
	}
	b.ReportMetric(float64(placed), "pods")
	b.ReportMetric(float64(cpus)/float64(len(f.members)*94)*100, "%cpus")
}

// Fit places a pod on the best node.
func (f *Fleet) Fit(pod Pod) (Placement, error) { return f.FitOf(f.Class(pod), pod) }

// Remove releases the resources of a pod on a node. asks has the amounts with which it was placed.
// If the pod is not there, nothing changes.
func (f *Fleet) Remove(name, uid string, asks Amounts) error {
	i, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	m := f.members[i]
	if _, found := m.State.Grant(uid); !found {
		return nil
	}
	f.changed(i, m.Next(m.State.Release(uid), minus(m.Used, asks)))
	return nil
}

// minus returns a without b.
func minus(a, b Amounts) Amounts {
	b.Milli, b.Memory, b.Pods = -b.Milli, -b.Memory, -b.Pods
	b.Others = slices.Clone(b.Others)
	for i := range b.Others {
		b.Others[i].Value = -b.Others[i].Value
	}
	return a.Plus(b)
}
