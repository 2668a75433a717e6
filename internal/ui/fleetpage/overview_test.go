package fleetpage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	corenode "github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

const gib = 1 << 30

// mixed returns a fleet of n nodes of each of two kinds, with two NUMA nodes of 8 or 16 CPUs.
func mixed(tb testing.TB, n int) *fleet.Fleet {
	tb.Helper()
	var nodes []fleet.Node
	for kind, cores := range map[string]int{"small": 8, "large": 16} {
		m := scenario.Machine(fmt.Sprintf("sockets=2 cores=%d uncore=8 memory=64Gi", cores))
		s, err := corenode.New(m, corenode.Policy{Topology: corenode.TopologySingleNUMANode, Scope: corenode.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
		if err != nil {
			tb.Fatal(err)
		}
		cpus := int64(len(m.CPUs()) - 1)
		for i := range n {
			nodes = append(nodes, fleet.Node{Name: fmt.Sprintf("%s-%04d", kind, i), Kind: kind, State: s, Allocatable: fleet.Amounts{Milli: 1000 * cpus, Memory: 120 * gib, Pods: 110, Others: request.Amounts{{Resource: "nvidia.com/gpu", Value: 4}}}})
		}
	}
	f, err := fleet.New(fleet.NewRanking(fleet.LeastStranded, nil), nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func podOf(i, cpus int) fleet.Pod {
	milli, uid := int64(cpus)*1000, fmt.Sprint("p-", i)
	return fleet.Pod{Pod: request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, Memory: request.Amounts{{Resource: request.Memory, Value: gib}}, Equivalent: true, CPURequest: milli, CPULimit: milli,
	}}}}, Asks: fleet.Amounts{Milli: milli, Memory: gib, Pods: 1, Others: request.Amounts{{Resource: "nvidia.com/gpu", Value: 1}}}}
}

func pageOf(f *fleet.Fleet) *Fleet {
	return &Fleet{Views: f.Views(), Answer: view.Fleet{Kinds: []view.FleetKind{{Kind: "small"}, {Kind: "large"}}}}
}

// TestTotals checks the totals of the kinds.
func TestTotals(t *testing.T) {
	f := mixed(t, 2)
	for i, at := range []string{"small-0000", "small-0000", "small-0001"} {
		if plan, err := f.Place(at, podOf(i, []int{5, 6, 8}[i])); err != nil || plan.Grant == nil {
			t.Fatal(at, err)
		}
	}
	got := pageOf(f).snapshot(nil).totals
	want := []total{
		{Nodes: 2, Pods: 3, Assigned: 19, Shared: 2, Free: 11, Memory: [2]int64{3 * gib, 240 * gib}, Others: []otherAmount{{"nvidia.com/gpu", 3, 8}}, Largest: 7, On: "small-0001"},
		{Nodes: 2, Shared: 2, Free: 62, Memory: [2]int64{0, 240 * gib}, Others: []otherAmount{{"nvidia.com/gpu", 0, 8}}, Largest: 16, On: "large-0000"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(total{}), cmpopts.IgnoreFields(total{}, "Stranded")); diff != "" {
		t.Error(diff)
	}
	if s := got[0].Stranded; s < 0 || s > 1100 {
		t.Errorf("%d hundredths of 11 free CPUs are stranded", s)
	}
}

// TestSnapshotFollows checks that a snapshot that takes what it can from the one before is the same
// as one that measures everything, whatever pods came and nodes went.
func TestSnapshotFollows(t *testing.T) {
	f := mixed(t, 5)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // Repeatable, not secret.
	var last *snapshot
	for i := range 60 {
		if _, err := f.Place(f.Views()[random.IntN(10)].Name, podOf(i, 1+random.IntN(16))); err != nil {
			t.Fatal(err)
		}
		page := pageOf(f)
		if i%7 == 0 { // A node is away.
			page.Views = page.Views[1:]
		}
		if i%11 == 0 { // The kinds have another order.
			page.Answer.Kinds[0], page.Answer.Kinds[1] = page.Answer.Kinds[1], page.Answer.Kinds[0]
		}
		next, all := page.snapshot(last), page.snapshot(nil)
		if diff := cmp.Diff(all.tiles, next.tiles); diff != "" {
			t.Fatal(diff)
		}
		// Several nodes can take the largest pod.
		if diff := cmp.Diff(all.totals, next.totals, cmpopts.IgnoreUnexported(total{}), cmpopts.IgnoreFields(total{}, "On")); diff != "" {
			t.Fatalf("step %d: %s", i, diff)
		}
		last = next
	}
}

// TestLooks checks that equal NUMA nodes are sent once.
func TestLooks(t *testing.T) {
	f := mixed(t, 50)
	if _, err := f.Place("small-0007", podOf(1, 3)); err != nil {
		t.Fatal(err)
	}
	s := pageOf(f).snapshot(nil)
	o := s.overview(1)
	if len(o.Looks) != 3 || len(o.Nodes) != 100 {
		t.Fatalf("%d looks of %d nodes, want 3 of 100", len(o.Looks), len(o.Nodes))
	}
	for i, n := range o.Nodes {
		if diff := cmp.Diff(s.tiles[i].NUMA, o.Looks[n.Look]); n.Name != s.tiles[i].Name || diff != "" {
			t.Fatalf("node %s: %s", n.Name, diff)
		}
	}
}

// BenchmarkSnapshot measures the tiles and totals of 10, 1,000 and 5,000 nodes with pods: of all,
// and after one has changed.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		f := mixed(b, n/2)
		for i, v := range f.Views() {
			for k := range 3 {
				if _, err := f.Place(v.Name, podOf(3*i+k, 1+(i+k)%7)); err != nil {
					b.Fatal(err)
				}
			}
		}
		before := pageOf(f).snapshot(nil)
		b.Run(fmt.Sprint("all/", n), func(b *testing.B) {
			for b.Loop() {
				pageOf(f).snapshot(nil)
			}
		})
		if _, err := f.Place(f.Views()[n/2].Name, podOf(4*n, 1)); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("one/", n), func(b *testing.B) {
			for b.Loop() {
				pageOf(f).snapshot(before)
			}
		})
	}
}
