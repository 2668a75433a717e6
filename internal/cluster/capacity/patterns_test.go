package capacity

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// TestPatternsIsABound checks that one node fewer than the bound does not take the pods, in any
// order and under any scoring.
func TestPatternsIsABound(t *testing.T) {
	above := 0
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		k := q.kinds[0]
		k.Count = 1
		items, _, err := apart([]Kind{k}, q.items, q.options)
		if err != nil || len(items) == 0 {
			t.Skip("no pods")
		}
		bound, err := patterns(t.Context(), k, items)
		if err != nil {
			t.Fatal(err)
		}
		if bound > sumsBound(k, items) {
			above++
		}
		if k.Count = bound - 1; k.Count < 1 {
			return
		}
		for _, scoring := range fleet.Scorings() {
			o := Options{Scoring: scoring}
			some := rapid.Permutation(items).Draw(t, "order")
			r, err := Fit(t.Context(), []Kind{k}, some, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Rejected == 0 {
				t.Fatalf("%d nodes take all pods under scoring %s, and the bound is %d", k.Count, scoring, bound)
			}
		}
	})
	if above == 0 {
		t.Error("the bound is never above that of the sums")
	}
}
