package packing

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkBound computes the bound for 150 kinds of pods whose amounts have no common divisor.
func BenchmarkBound(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	node := Node{Price: 1, Whole: Size{0, 0}}
	for range 8 {
		node.Cells = append(node.Cells, Size{48, 97_280})
		node.Whole[0], node.Whole[1] = node.Whole[0]+48, node.Whole[1]+97_280
	}
	var items []Item
	for range 150 {
		s := Size{1 + random.Int64N(24), 100 + random.Int64N(80_000)}
		items = append(items, Item{Count: 1 + random.Int64N(100), On: []Need{{Parts: []Size{s}, Whole: s}}})
	}
	for range b.N {
		r := Bound([]Node{node}, items, Budget, func() bool { return false })
		b.ReportMetric(r.Price, "nodes")
		b.ReportMetric(r.Optimal, "optimal")
	}
}
