package packing

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// kinds returns a node of 8 NUMA nodes, and as many kinds of pods as asked for, whose amounts have
// no common divisor. If large is set, at most two of them fit on a NUMA node.
func kinds(n int, large bool) (Node, []Item) {
	random := rand.New(rand.NewPCG(1, 1))
	node := Node{Price: 1, Whole: Size{0, 0}}
	for range 8 {
		node.Cells = append(node.Cells, Size{48, 97_280})
		node.Whole[0], node.Whole[1] = node.Whole[0]+48, node.Whole[1]+97_280
	}
	var items []Item
	for range n {
		s := Size{1 + random.Int64N(24), 100 + random.Int64N(80_000)}
		if large {
			s = Size{17 + random.Int64N(24), 100 + random.Int64N(60_000)}
		}
		items = append(items, Item{Count: 1 + random.Int64N(100), On: []Need{{Parts: []Size{s}, Whole: s}}})
	}
	return node, items
}

// BenchmarkBound computes the bound for kinds of pods whose amounts have no common divisor.
func BenchmarkBound(b *testing.B) {
	for _, large := range []bool{false, true} {
		for _, n := range []int{10, 150, 1000, 5000} {
			b.Run(fmt.Sprintf("large=%v/kinds=%d", large, n), func(b *testing.B) {
				node, items := kinds(n, large)
				for b.Loop() {
					r := Bound([]Node{node}, items, Budget, func() bool { return false })
					b.ReportMetric(r.Price, "nodes")
					b.ReportMetric(r.Optimal, "optimal")
				}
			})
		}
	}
}
