package fleet

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
)

// TestStrandedOn compares the sums with those of Stock, and the request that strands most with a
// search through all typical requests, each of them alone in a ranking.
func TestStrandedOn(tt *testing.T) {
	m := hardware(tt, 32*gib, 8, 8)
	rapid.Check(tt, func(t *rapid.T) {
		policy := policyOf(rapid.SampledFrom([]node.TopologyPolicy{node.TopologyBestEffort, node.TopologySingleNUMANode}).Draw(t, "policy"), node.PodScope)
		var nodes []Node
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			nodes = append(nodes, member1(t, fmt.Sprint("n", i), m, policy))
		}
		f, err := New(NewRanking(LeastStranded, nil), nodes)
		if err != nil {
			t.Fatal(err)
		}
		cpus, memory := rapid.IntRange(1, 12), rapid.Int64Range(1, 30)
		var shapes []Shape
		for i := range rapid.IntRange(1, 4).Draw(t, "shapes") {
			shapes = append(shapes, Shape{guaranteed(fmt.Sprint("s", i), cpus.Draw(t, "cpus"), memory.Draw(t, "GiB")*gib), rapid.Int64Range(1, 3).Draw(t, "count")})
		}
		f.Weigh(shapes)
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			if _, err := f.Fit(guaranteed(fmt.Sprint("p", i), cpus.Draw(t, "cpus"), memory.Draw(t, "GiB")*gib)); err != nil {
				t.Fatal(err)
			}
		}
		check(t, f.Views())
	})
}

func check(t *rapid.T, views []*View) {
	got := StrandedOn(views)
	free, stranded := 0, 0.0
	for _, v := range views {
		for _, s := range v.Stock() {
			free, stranded = free+s.Free, stranded+s.Stranded
		}
	}
	if got.Free != free || math.Abs(got.CPUs-stranded) > 1e-3 {
		t.Fatalf("%d free and %f stranded, expected %d and %f", got.Free, got.CPUs, free, stranded)
	}
	most, found := 0.0, false
	for _, w := range views[0].ranking.weights {
		of := alone(views, w)
		if most = max(most, of*float64(w.share)); got.Worst != nil {
			found = found || w.cpus == got.Worst.CPUs && math.Abs(of-got.Worst.Stranded) < 1e-3
		}
	}
	switch worst := got.Worst; {
	case worst == nil && most > 0:
		t.Fatal("no request strands most")
	case worst != nil && !found:
		t.Fatalf("no typical request strands so much: %+v", worst)
	case worst != nil && worst.Less > 0 && (worst.Less >= worst.CPUs || worst.Less*4 < worst.CPUs*3 || worst.Left*2 > worst.Stranded):
		t.Fatalf("the advice is no help: %+v", worst)
	}
}

// alone returns what one typical request strands.
func alone(views []*View, w weight) (sum float64) {
	w.share = unit
	ranking := &Ranking{scoring: LeastStranded, weights: []weight{w}, tables: map[machines]*table{}}
	for _, v := range views {
		if short := v.Allocatable.Short(v.Used, w.asks); short == "" || short == "memory" {
			sum += ranking.View(v.Node).Stranded()
		}
	}
	return sum
}
