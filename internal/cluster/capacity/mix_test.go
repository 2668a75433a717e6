package capacity

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// named returns a kind with another name.
func named(k Kind, name string) Kind {
	k.Name = name
	return k
}

// TestMix uses pods that only one kind takes, and pods that only the other takes. The mix must be
// as cheap as the bound.
func TestMix(t *testing.T) {
	small, wide := named(kind(t, 0), "small"), named(kind(t, 0), "wide")
	wide.Allocatable.Pods = 2
	items := []Item{item("large", 7, 8), item("tiny", 1, 60)}
	for i, only := range []string{"wide", "small"} {
		items[i].Pod.Constraint, items[i].Pod.Allowed = only, func(n *fleet.Node) bool { return n.Kind == only }
	}
	m, err := SizeMix(t.Context(), []Kind{small, wide}, []float64{10, 6}, items, 100, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Counts, []int{4, 4}) || m.Price != 64 || math.Abs(m.LowerBound-64) > 1e-6 || m.LowerBound > 64 || m.Result.Rejected > 0 {
		t.Errorf("%+v", m)
	}
	for _, wrong := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := SizeMix(t.Context(), []Kind{small, wide}, []float64{1, wrong}, items, 100, Options{}); !errors.Is(err, ErrPrice) {
			t.Errorf("price %v: %v", wrong, err)
		}
	}
	if _, err := SizeMix(t.Context(), []Kind{small, wide}, []float64{1, 1}, []Item{item("never", 12, 1)}, 100, Options{}); !errors.Is(err, ErrNever) {
		t.Error(err)
	}
	if _, err := SizeMix(t.Context(), []Kind{small, wide}, []float64{1, 1}, items, 3, Options{}); !errors.Is(err, ErrTooFew) {
		t.Error(err)
	}
}

// TestMixes checks that, whatever the pods and prices are, all pods fit, they do not fit with one
// node fewer of any kind, and no small mix that takes them costs less than the lower bound.
func TestMixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := named(kind(t, 0), "a"), named(kind(t, 0), "b")
		b.Allocatable.Memory /= int64(rapid.IntRange(1, 4).Draw(t, "memory"))
		b.Allocatable.Milli = int64(rapid.IntRange(7, 15).Draw(t, "cpus")) * 1000
		a.Allocatable.Pods = int64(rapid.IntRange(1, 6).Draw(t, "pods"))
		kinds, prices := []Kind{a, b}, []float64{rapid.Float64Range(0.5, 4).Draw(t, "a"), rapid.Float64Range(0.5, 4).Draw(t, "b")}
		var items []Item
		for i, n := range rapid.SliceOfN(rapid.Int64Range(1, 6), 1, 3).Draw(t, "items") {
			items = append(items, item(string(rune('p'+i)), rapid.IntRange(1, 7).Draw(t, "each"), n))
		}
		m, err := SizeMix(t.Context(), kinds, prices, items, 50, Options{})
		if err != nil {
			t.Fatal(err)
		}
		search := mixing{ctx: t.Context(), kinds: kinds, prices: prices, items: items, most: 50}
		takes := func(counts []int) bool {
			r, err := search.try(counts)
			if err != nil {
				t.Fatal(err)
			}
			return r != nil
		}
		if !takes(m.Counts) {
			t.Fatalf("the pods do not fit on %v", m.Counts)
		}
		for k := range kinds {
			fewer := slices.Clone(m.Counts)
			if fewer[k]--; fewer[k] >= 0 && takes(fewer) {
				t.Fatalf("the pods fit on %v, and the answer is %v", fewer, m.Counts)
			}
		}
		for x := range 8 {
			for y := range 8 {
				if cost := float64(x)*prices[0] + float64(y)*prices[1]; cost < m.LowerBound && takes([]int{x, y}) {
					t.Fatalf("%d and %d nodes cost %v, less than the bound %v", x, y, cost, m.LowerBound)
				}
			}
		}
	})
}
