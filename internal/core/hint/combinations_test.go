package hint

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// fitting returns a set of n NUMA nodes of which any amount of them, at least size, fits.
func fitting(n, size int) Set {
	s := Set{Resource: "r", Kind: Fits, Candidates: mask.Mask(1)<<n - 1, Needs: []Need{{Amount: int64(size), Offer: make([]int64, n)}}}
	for i := range s.Needs[0].Offer {
		s.Needs[0].Offer[i] = 1
	}
	return s
}

func TestManyCombinations(t *testing.T) {
	all := fitting(8, 1) // 255 masks
	twice := all
	twice.Copies = 2
	for _, c := range []struct {
		name  string
		sets  []Set
		limit int64
		want  bool
	}{
		{"no set", nil, 2, false},
		{"255 and 255", []Set{all, all}, 65025, true},
		{"one more", []Set{all, all}, 65026, false},
		{"two lists of one set", []Set{twice}, 65025, true},
		{"no preference and no mask count as one", []Set{all, {Kind: Any}, {Kind: None}}, 256, false},
		{"a set without a mask", []Set{fitting(8, 9)}, 2, false},
		{"explicit masks", []Set{{Kind: Fits, Explicit: []mask.Mask{1, 2, 2}}, all}, 510, true},
		{"and one more", []Set{{Kind: Fits, Explicit: []mask.Mask{1, 2, 2}}, all}, 511, false},
	} {
		if got := ManyCombinations(c.sets, c.limit); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestManyCombinationsIsBounded checks that machines with many NUMA nodes, which have 2^34 masks
// for each resource, are answered at once.
func TestManyCombinationsIsBounded(t *testing.T) {
	for _, size := range []int{1, 17, 34} {
		sets := []Set{fitting(34, size), fitting(34, size), fitting(34, size), fitting(34, size)}
		begin := time.Now()
		if got := ManyCombinations(sets, 1<<40); got != (size < 34) {
			t.Errorf("size %d: %t", size, got)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("size %d took %v", size, took)
		}
	}
}

// TestCountIsExact checks the count of sets with few candidates against an enumeration, and that of
// others is not above it.
func TestCountIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 13).Draw(t, "nodes")
		s := fitting(n, rapid.IntRange(1, n).Draw(t, "size"))
		s.Required = s.Candidates & mask.Mask(rapid.Uint64Range(0, 1<<n-1).Draw(t, "required"))
		want := int64(0)
		for m := mask.Mask(1); m < 1<<n; m++ {
			if s.Has(m) {
				want++
			}
		}
		got := s.count()
		exact := (s.Candidates &^ s.Required).Len() <= countedExactly
		if got > want || exact && got != want || got > s.atMost() {
			t.Errorf("counted %d masks of %d, at most %d", got, want, s.atMost())
		}
	})
}

func BenchmarkManyCombinations(b *testing.B) {
	sets := []Set{fitting(8, 1), fitting(8, 2), fitting(8, 1), fitting(8, 4)}
	for b.Loop() {
		ManyCombinations(sets, 120_000_000)
	}
}
