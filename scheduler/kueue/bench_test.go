package kueue

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkPass judges 1,000 workloads of 8 pods that wait at once: half of them with a topology
// assignment of four nodes. Each node has two pods already. The first pass reads every node and
// every pod; "again" is a pass of one more workload beside those that are kept.
func BenchmarkPass(b *testing.B) {
	for _, nodes := range []int{10, 1000, 5000} {
		w := newWorld(b, nodes)
		for i := range nodes {
			w.bind(fmt.Sprint("n", i+1), fmt.Sprint("a", i), 2, "", "")
			w.bind(fmt.Sprint("n", i+1), fmt.Sprint("b", i), int64(1+i%4), "", "")
		}
		for i := range 1000 {
			s := set{name: "main", count: 8, cpus: int64(1 + i%4)}
			if i%2 == 0 {
				s.on = map[string]int64{}
				for k := range 4 {
					s.on[fmt.Sprint("n", (i*4+k)%nodes+1)] = 2
				}
			}
			w.add(fmt.Sprint("job", i), s)
		}
		world := w.world()
		all := world.Workloads()
		world.Workloads = func() []*Workload { return all }
		world.Patch = func(context.Context, *Workload, []byte) error { return nil }
		b.Run(fmt.Sprintf("nodes=%d/first", nodes), func(b *testing.B) {
			for b.Loop() {
				New(world, w.ranking).Pass(b.Context())
			}
			b.ReportMetric(float64(w.outcomes[Retried])/float64(max(1, w.outcomes[Retried]+w.outcomes[Accepted])), "rejected")
		})
		b.Run(fmt.Sprintf("nodes=%d/again", nodes), func(b *testing.B) {
			c := New(world, w.ranking)
			c.Pass(b.Context())
			for b.Loop() {
				delete(c.answered, all[0].UID)
				c.tries = map[types.UID]try{}
				c.Pass(b.Context())
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/nothing-to-do", nodes), func(b *testing.B) {
			c := New(world, w.ranking)
			c.Pass(b.Context())
			for b.Loop() {
				c.Pass(b.Context())
			}
		})
	}
}
