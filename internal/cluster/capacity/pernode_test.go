package capacity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// limited returns an item of which a node has at most so many pods, or any number if most is 0.
func limited(name string, cpus int, count, most int64) Item {
	i := item(name, cpus, count)
	if most > 0 {
		i.Pod.PerNode = fleet.PerNode{Workload: name, Most: most}
	}
	return i
}

// TestLimitPerNode checks the causes of pods that a limit keeps from nodes: the limit is the cause
// only where the node would otherwise take the pod.
func TestLimitPerNode(t *testing.T) {
	items := []Item{limited("a", 2, 5, 2), limited("b", 2, 1, 2), limited("full", 7, 3, 2), limited("wide", 9, 1, 1)}
	r, err := Fit(t.Context(), []Kind{kind(t, 2)}, items, Options{Scoring: fleet.LeastAllocated})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.Causes {
		got = append(got, fmt.Sprintf("%d %s on %d, never %d: %s | %s | %s", c.Pods, Text(c.Nearest), c.Nodes, c.Never, c.Detail, c.Remedy, c.OneMore))
	}
	want := []string{
		"2 insufficient cpu on 2, never 1:  |  | n",
		"1 limit of the workload per node on 2, never 0: at most 2 of workload a on a node, and it has 2 | allow 3 of workload a on a node | n",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSmallerObeysLimits checks that smaller requests are tried with the limit, and that the pods
// that were already placed count. Each node has two of the pods, so it takes only one more of 2
// CPUs, although one of them has 2 NUMA nodes with room.
func TestSmallerObeysLimits(t *testing.T) {
	for most, want := range map[int64]string{
		0: "4 pods, 4 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 4 by 2 to 5, with others 0; 3 cpu places 1; 2 cpu places 3",
		3: "4 pods, 4 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 4 by 2 to 5, with others 0; 3 cpu places 1; 2 cpu places 2",
	} {
		r, err := Fit(t.Context(), []Kind{kind(t, 2)}, []Item{limited("web", 5, 8, most), item("three", 3, 1)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Scarcity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Shapes) != 1 || s.Shapes[0].String() != want {
			t.Errorf("at most %d on a node: shapes %v; expected %s", most, s.Shapes, want)
		}
	}
}

// drawLimited draws items, most of which have a limit per node.
func drawLimited(t *rapid.T) (items []Item, limits map[string]int64) {
	limits = map[string]int64{}
	for i := range rapid.IntRange(1, 5).Draw(t, "items") {
		name := string(rune('a' + i))
		limits[name] = rapid.Int64Range(0, 3).Draw(t, "limit")
		items = append(items, limited(name, rapid.IntRange(1, 7).Draw(t, "cpus"), rapid.Int64Range(1, 8).Draw(t, "count"), limits[name]))
	}
	return items, limits
}

// exceeded returns a workload of which a node has more pods than the limit, or "".
func exceeded(placed []Placement, limits map[string]int64) string {
	on := map[[2]string]int64{}
	for _, p := range placed {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.Pod, "default/"), "-")
		at := [2]string{p.Node, name}
		if on[at]++; p.Node != "" && limits[name] > 0 && on[at] > limits[name] {
			return fmt.Sprintf("%s has %d of %s, and the limit is %d", p.Node, on[at], name, limits[name])
		}
	}
	return ""
}

// TestLimitPerNodeHolds checks that no node has more pods of a workload than its limit, in every
// order, scoring and question, and that no number of nodes is below the lower bound.
func TestLimitPerNodeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items, limits := drawLimited(t)
		o := Options{Placements: true, Scoring: rapid.SampledFrom(fleet.Scorings()).Draw(t, "scoring"), Order: rapid.SampledFrom(Orders()).Draw(t, "order")}
		kinds := []Kind{kind(t, rapid.IntRange(1, 4).Draw(t, "nodes"))}
		fit, err := Fit(t.Context(), kinds, items, o)
		if err != nil {
			t.Fatal(err)
		}
		fill, err := Fill(t.Context(), kinds, items, 0, rapid.Uint64().Draw(t, "seed"), o)
		if err != nil {
			t.Fatal(err)
		}
		size, _, err := Fewest(t.Context(), kinds[0], items, 100, Ways(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Result{fit, fill, size} {
			if wrong := exceeded(r.Placements, limits); wrong != "" {
				t.Fatal(wrong)
			}
		}
		if size.Rejected > 0 || size.LowerBound > size.Nodes {
			t.Fatalf("%d nodes, %d rejected, and the bound is %d", size.Nodes, size.Rejected, size.LowerBound)
		}
		for _, i := range items {
			if most := i.Pod.PerNode.Most; most > 0 && int64(size.LowerBound)*most < i.Count {
				t.Fatalf("the bound is %d nodes, too few for %d of which a node has at most %d", size.LowerBound, i.Count, most)
			}
		}
		if fit.Rejected == 0 && len(fit.Placements) > 0 && fit.Nodes < size.LowerBound {
			t.Fatalf("%d nodes take all pods, and the bound is %d", fit.Nodes, size.LowerBound)
		}
	})
}

// TestMixWithLimits checks that a mix has enough nodes for the limits, and that its bound counts
// them.
func TestMixWithLimits(t *testing.T) {
	other := kind(t, 0)
	other.Name = "other"
	items := []Item{limited("a", 1, 20, 2), limited("b", 1, 9, 1)}
	m, err := SizeMix(t.Context(), []Kind{kind(t, 0), other}, []float64{2, 3}, items, 100, Options{Placements: true})
	if err != nil {
		t.Fatal(err)
	}
	wrong := exceeded(m.Result.Placements, map[string]int64{"a": 2, "b": 1})
	if m.Price != 20 || m.LowerBound < 19.99 || m.LowerBound > 20 || wrong != "" {
		t.Errorf("the price is %v and its bound %v, expected 20 and 20; %s", m.Price, m.LowerBound, wrong)
	}
}

// BenchmarkLimitPerNode places the pods of 160 workloads on 400 nodes, without limits and with
// limits that many nodes reach.
func BenchmarkLimitPerNode(b *testing.B) {
	for _, most := range []int64{0, 1, 4} {
		b.Run(fmt.Sprint("limit=", most), func(b *testing.B) {
			var items []Item
			for i := range 160 {
				items = append(items, limited(fmt.Sprint("w", i), 1+i%7, 51, most))
			}
			for b.Loop() {
				r, err := Fit(b.Context(), []Kind{kind(b, 4000)}, items, Options{Order: LargestFirst})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Rejected), "rejected")
			}
		})
	}
}

// TestLimitAndSmaller checks what a pod with a limit lacks where another node has no room for it,
// and that a smaller request obeys the limit as well: n1 has a pod of the workload already.
func TestLimitAndSmaller(t *testing.T) {
	r, err := Fit(t.Context(), []Kind{kind(t, 2)}, []Item{item("b", 5, 3), limited("a", 5, 3, 1)}, Options{Scoring: fleet.LeastAllocated})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Scarcity(t.Context())
	if err != nil || len(s.Shapes) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	want := "2 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 2 to 3, with others 0; 3 cpu places 1"
	if got := s.Shapes[0].String(); got != want || s.Shapes[0].Limited != 1 {
		t.Errorf("%s, limited %d\nwant %s, limited 1", got, s.Shapes[0].Limited, want)
	}
}
