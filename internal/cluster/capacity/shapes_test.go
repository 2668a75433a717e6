package capacity

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkFitShapes places pods that all differ, as many as there are nodes.
func BenchmarkFitShapes(b *testing.B) {
	for _, scoring := range []fleet.Scoring{fleet.LeastStranded, fleet.BestFit} {
		for _, n := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("%v/shapes=%d", scoring, n), func(b *testing.B) {
				items := differing(n)
				for b.Loop() {
					r, err := Fit(b.Context(), []Kind{kind(b, n)}, items, Options{Scoring: scoring})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(r.Rejected), "rejected")
				}
			})
		}
	}
}

// differing returns a number of pods of which each has other amounts.
func differing(n int) (items []Item) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		it := item(fmt.Sprint("p", i), 1+random.IntN(8), 1)
		memory := int64(i+1)<<20 + gib
		it.Pod.Containers[0].Memory = request.Amounts{{Resource: request.Memory, Value: memory}}
		it.Pod.Asks.Memory = memory
		items = append(items, it)
	}
	return items
}
