package engine_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/node/engine"
)

// BenchmarkAdmitAll measures the admission of the given number of pods at once, as when a runtime
// synchronises with an agent that has no state. The disk takes no time.
func BenchmarkAdmitAll(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		pods := make([]engine.Candidate, n)
		for i := range pods {
			pods[i].Pod = pod(fmt.Sprint("p-", i), 0)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, _, _ := newEngine(b)
				for _, d := range e.AdmitAll(b.Context(), pods) {
					if d.Err != nil || d.Plan.Rejection != nil {
						b.Fatal(d.Err, d.Plan.Rejection)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/pod")
		})
	}
}
