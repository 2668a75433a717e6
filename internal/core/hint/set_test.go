package hint

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

func TestHas(t *testing.T) {
	f := Set{
		Kind: Fits, Candidates: mask.Of(0, 1, 2), Required: mask.Of(1), Touch: []mask.Mask{mask.Of(0, 2)},
		Needs: []Need{{
			Amount: 5, Offer: []int64{1, 3, 2, 9},
			Shared: []SharedOffer{{Nodes: mask.Of(1, 3), Amount: 1}},
		}},
		Explicit: []mask.Mask{mask.Of(3)},
	}
	for _, c := range []struct {
		mask string
		want bool
	}{
		{"{0-2}", true},
		{"{0-1}", true},  // 1+3, and 1 that NUMA nodes 1 and 3 offer together
		{"{1-2}", true},  // the same
		{"{0,2}", false}, // NUMA node 1 is required
		{"{1}", false},   // has neither NUMA node 0 nor 2
		{"{1,3}", false}, // NUMA node 3 is not a candidate
		{"{3}", true},    // explicit
		{"{}", false},
	} {
		m, err := mask.Parse(c.mask)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Has(m); got != c.want {
			t.Errorf("%s: got %v", c.mask, got)
		}
	}
	if !(Set{}).Has(mask.Of(7)) || (Set{}).Has(0) || (Set{Kind: None}).Has(mask.Of(0)) {
		t.Error("any holds every mask but the empty one, none holds nothing")
	}
}

func TestIsEmpty(t *testing.T) {
	offers := []Need{{Amount: math.MaxInt64, Offer: []int64{math.MaxInt64 - 1, 1}}}
	for _, c := range []struct {
		name string
		set  Set
		want bool
	}{
		{"any", Set{}, false},
		{"none", Set{Kind: None}, false},
		{"no candidates", Set{Kind: Fits}, true},
		{"all candidates just fit", Set{Kind: Fits, Candidates: mask.Of(0, 1), Needs: offers}, false},
		{"one node is missing", Set{Kind: Fits, Candidates: mask.Of(0), Needs: offers}, true},
		{"an explicit mask", Set{Kind: Fits, Explicit: []mask.Mask{mask.Of(4)}}, false},
		{"an empty explicit mask", Set{Kind: Fits, Explicit: []mask.Mask{0}}, true},
		{"required elsewhere", Set{Kind: Fits, Candidates: mask.Of(0), Required: mask.Of(1)}, true},
		{"touch elsewhere", Set{Kind: Fits, Candidates: mask.Of(0), Touch: []mask.Mask{mask.Of(1)}}, true},
	} {
		if got := c.set.IsEmpty(); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// TestMinSizeIsLiteral compares MinSize with the smallest of all masks.
func TestMinSizeIsLiteral(t *testing.T) {
	most := largest()
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, most)
		candidates := drawSubset(t, nodes, "candidates")
		var needs []Need
		for range rapid.IntRange(0, 4).Draw(t, "needs") {
			needs = append(needs, drawNeed(t, nodes))
		}
		want := 0
		for _, m := range allMasks(candidates) {
			if holds(Set{Candidates: candidates, Needs: needs}, m) && (want == 0 || m.Len() < want) {
				want = m.Len()
			}
		}
		if got, ok := MinSize(candidates, needs); got != want || ok != (want > 0) {
			t.Fatalf("got %d, %v, want %d of %v %+v", got, ok, want, candidates, needs)
		}
	})
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		Any.String(): "any", None.String(): "none", Fits.String(): "fits",
		BestEffort.String(): "best-effort", Restricted.String(): "restricted",
		SingleNUMANode.String(): "single-numa-node",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestOfferedIsWhatCounts checks that a need is met exactly if Offered reaches its amount.
func TestOfferedIsWhatCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, largest())
		need := drawNeed(t, nodes)
		m := drawSubset(t, nodes, "mask")
		set := Set{Kind: Fits, Candidates: nodes, Needs: []Need{need}}
		if want := need.Offered(m) >= need.Amount && !m.IsEmpty(); set.Has(m) != want {
			t.Fatalf("%v offers %d of %+v, and Has is %t", m, need.Offered(m), need, !want)
		}
	})
}
