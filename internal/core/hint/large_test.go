package hint

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// TestBudgetIsHonest lets the budget end anywhere. An unproven answer must have the kind and the
// size of the true answer. An unsolved one must not be admitted, except under best-effort.
func TestBudgetIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawCase(t, 6)
		rules.Budget = rapid.IntRange(1, 60).Draw(t, "budget")
		want, got := literally(sets, rules), Merge(sets, rules)
		switch {
		case got.Unsolved:
			if got.Mask != rules.Nodes || got.Preferred || got.Admit != (rules.Policy == BestEffort) || got.Why == "" {
				t.Fatalf("unsolved: %+v", got)
			}
		case got.Unproven:
			if got.Preferred != want.Preferred || got.Mask.Len() != want.Mask.Len() || got.Admit != want.Admit {
				t.Fatalf("unproven: got %+v, want %+v of\n%s", got, want, show(sets, rules))
			}
		case got.Admit != want.Admit || want.Admit && got.Mask != want.Mask:
			t.Fatalf("got %+v, want %+v of\n%s", got, want, show(sets, rules))
		}
	})
}

// drawLarge draws a request on one of the machines of the benchmarks, or on 64 NUMA nodes that all
// differ.
func drawLarge(t *rapid.T) ([]Set, Rules) {
	r := drawRand(t)
	beds := testbeds()
	beds = append(beds, newTestbed("uneven64", 64, func(int) int64 { return 4 + r.Int64N(9) },
		func(int) int64 { return (4 + r.Int64N(60)) * gib },
		func(a, b int) int { return 10 + (a^b)%7 }))
	m := rapid.SampledFrom(beds).Draw(t, "machine")
	m.fill(rapid.SampledFrom([]string{"empty", "half", "fragmented"}).Draw(t, "state"), r)
	sets := rapid.SampledFrom(m.cases()).Draw(t, "request")
	rules := Rules{Nodes: (^mask.Mask(0)).First(len(m.cpus)), Policy: Policy(r.IntN(3)), Budget: 50_000}
	if r.IntN(2) == 0 {
		rules.Distances = m.distances
	}
	return sets, rules
}

// TestOrderDoesNotMatter checks, for any number of NUMA nodes, that hint providers may come in any
// order (R-HINT-56), and that the same input has the same answer and the same cost.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawLarge(t)
		want := Merge(sets, rules)
		if again := Merge(sets, rules); again != want {
			t.Fatalf("first %+v, then %+v", want, again)
		}
		shuffled := rapid.Permutation(sets).Draw(t, "order")
		got := Merge(shuffled, rules)
		if want.Unproven || want.Unsolved || got.Unproven || got.Unsolved {
			return
		}
		if got.Steps = want.Steps; got != want {
			t.Fatalf("got %+v, want %+v of\n%s", got, want, show(sets, rules))
		}
	})
}

// TestPreferredIsPreferredByAll checks, for any number of NUMA nodes, that a preferred mask is in
// every set and has the size that every set prefers, and that replacing one NUMA node never makes
// it fitter. Single NUMA nodes that would be preferred are never missed.
func TestPreferredIsPreferredByAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawLarge(t)
		got := Merge(sets, rules)
		all := func(m mask.Mask) bool {
			return !slices.ContainsFunc(sets, func(f Set) bool {
				return f.IsEmpty() || !f.Has(m) || m.Len() != f.Preferred
			})
		}
		if got.Preferred && !all(got.Mask) {
			t.Fatalf("%+v is not preferred by all of\n%s", got, show(sets, rules))
		}
		for in := range rules.Nodes.All() {
			if !got.Preferred && !got.Unsolved && all(mask.Of(in)) {
				t.Fatalf("%+v overlooks %d of\n%s", got, in, show(sets, rules))
			}
			for out := range got.Mask.All() {
				other := got.Mask.Without(out).With(in)
				if got.Preferred && !got.Unproven && other.Len() == got.Mask.Len() && other != got.Mask &&
					fitter(got.Mask, other, rules) && all(other) {
					t.Fatalf("%v is fitter than %+v of\n%s", other, got, show(sets, rules))
				}
			}
		}
	})
}

// TestNodesThatOfferNothing checks that any number of NUMA nodes without CPUs and memory, such as
// those of GPUs, change neither the answer nor its cost.
func TestNodesThatOfferNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawCase(t, 5)
		if len(sets) == 0 || rules.Policy == SingleNUMANode {
			return
		}
		want, nodes := Merge(sets, rules), rules.Nodes
		rules.Nodes = ^mask.Mask(0)
		rules.Distances = widened(rules.Distances)
		got := Merge(sets, rules)
		if want.Mask == nodes && got.Mask == rules.Nodes { // the default mask
			want.Mask = got.Mask
		}
		if got.Steps > want.Steps {
			t.Fatalf("cost %d, with more nodes %d", want.Steps, got.Steps)
		}
		if got.Mask != want.Mask || got.Preferred != want.Preferred {
			t.Fatalf("got %+v, want %+v of\n%s", got, want, show(sets, rules))
		}
	})
}

func widened(distances [][]int) [][]int {
	if distances == nil {
		return nil
	}
	wide := make([][]int, mask.MaxNode+1)
	for a := range wide {
		wide[a] = make([]int, mask.MaxNode+1)
		if a < len(distances) {
			copy(wide[a], distances[a])
		}
	}
	return wide
}

// TestExtremeAmounts checks that extreme amounts neither overflow nor panic, and that nothing is
// assigned twice.
func TestExtremeAmounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		huge := func() int64 { return []int64{-1 << 63, -1, 0, 1, 1 << 62, 1<<63 - 1}[r.IntN(6)] }
		var sets []Set
		for range 1 + r.IntN(3) {
			f := Set{
				Kind: Kind(r.IntN(3)), Candidates: mask.Mask(r.Uint64()), Copies: r.IntN(200) - 50,
				Preferred: r.IntN(80) - 8, Explicit: []mask.Mask{0, mask.Mask(r.Uint64())},
			}
			f.Needs = []Need{{Amount: huge(), Shared: []SharedOffer{{Nodes: mask.Mask(r.Uint64()), Amount: huge()}}}}
			for range r.IntN(70) {
				f.Needs[0].Offer = append(f.Needs[0].Offer, huge())
			}
			if r.IntN(3) == 0 {
				f.Sockets = &SocketRule{Count: r.IntN(5) - 1, Sockets: []mask.Mask{0, mask.Mask(r.Uint64())}}
			}
			sets = append(sets, f)
		}
		rules := Rules{Nodes: ^mask.Mask(0), Policy: Policy(r.IntN(3)), Budget: 5_000}
		if r.IntN(2) == 0 {
			rules.Distances = [][]int{{10, 20}, {30}}
		}
		c := Merge(sets, rules)
		for _, f := range sets {
			if c.Preferred && f.Kind == Fits && !f.Has(c.Mask) {
				t.Fatalf("%+v is not in %+v", c, f)
			}
		}
	})
}
