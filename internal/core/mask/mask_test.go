package mask_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

func TestTextForm(t *testing.T) {
	for _, c := range []struct {
		mask mask.Mask
		text string
	}{
		{0, "{}"},
		{mask.Of(0), "{0}"},
		{mask.Of(63), "{63}"},
		{mask.Of(0, 1), "{0-1}"},
		{mask.Of(5, 0, 3, 2), "{0,2-3,5}"},
		{mask.Of(61, 62, 63), "{61-63}"},
		{^mask.Mask(0), "{0-63}"},
	} {
		if got := c.mask.String(); got != c.text {
			t.Errorf("%#x is written %s, want %s", uint64(c.mask), got, c.text)
		}
		if got := c.mask.List(); got != strings.Trim(c.text, "{}") {
			t.Errorf("%s is the list %q", c.text, got)
		}
		for _, text := range []string{c.text, strings.Trim(c.text, "{}")} {
			if got, err := mask.Parse(text); err != nil || got != c.mask {
				t.Errorf("Parse(%q) = %v, %v, want %s", text, got, err, c.text)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for m, want := range map[mask.Mask]string{mask.Of(7): "NUMA node 7", mask.Of(0, 1, 5): "NUMA nodes 0-1,5"} {
		if got := m.Words(); got != want {
			t.Errorf("%s is %q in words, expected %q", m, got, want)
		}
		if got, want := mask.Count(m.Len()), map[int]string{1: "1 NUMA node", 3: "3 NUMA nodes"}[m.Len()]; got != want {
			t.Errorf("counted as %q, expected %q", got, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for text, want := range map[string]string{
		"{":            "expected a NUMA node id",
		"}":            "expected a NUMA node id",
		"{{0}}":        "expected a NUMA node id",
		"0,":           `""`,
		",0":           `""`,
		"0 1":          `"0 1"`,
		" 0":           `" 0"`,
		"-1":           `"-1"`,
		"+1":           `"+1"`,
		"1-":           `"1-"`,
		"0-1-2":        `"0-1-2"`,
		"3-1":          "runs backwards",
		"64":           "end at 63",
		"0-64":         "end at 63",
		"256":          "from 0 to 63",
		"0-4000000000": "from 0 to 63",
	} {
		got, err := mask.Parse(text)
		if !errors.Is(err, mask.ErrSyntax) || got != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// TestNarrowerThan covers the pairs for which the order by count and number differs from the order
// of sorted lists of ids.
func TestNarrowerThan(t *testing.T) {
	ordered := []mask.Mask{
		0, mask.Of(0), mask.Of(1), mask.Of(63),
		mask.Of(0, 1), mask.Of(0, 2), mask.Of(1, 2), mask.Of(0, 3), mask.Of(2, 3), mask.Of(0, 63),
		mask.Of(0, 1, 2), mask.Of(61, 62, 63), ^mask.Mask(0),
	}
	for i, a := range ordered {
		for k, b := range ordered {
			if got, want := a.NarrowerThan(b), i < k; got != want {
				t.Errorf("%s narrower than %s: %v, want %v", a, b, got, want)
			}
		}
	}
}

func TestFirst(t *testing.T) {
	m := mask.Of(1, 4, 63)
	for n, want := range []mask.Mask{0, mask.Of(1), mask.Of(1, 4), m, m} {
		if got := m.First(n); got != want {
			t.Errorf("First(%d): got %s, want %s", n, got, want)
		}
	}
	if got := m.First(-1); got != 0 {
		t.Errorf("First(-1): got %s", got)
	}
}

func TestIDsOutsideTheRange(t *testing.T) {
	full := ^mask.Mask(0)
	for _, id := range []int{-1 << 40, -64, -1, 64, 65, 128, 1 << 40} {
		if full.Has(id) {
			t.Errorf("the full set has %d", id)
		}
		if got := full.Without(id); got != full {
			t.Errorf("without %d the full set is %s", id, got)
		}
		if !panics(func() { _ = mask.Of(id) }) {
			t.Errorf("Of(%d) did not panic", id)
		}
		if got, err := mask.Collect([]int{0, id}); err == nil || got != 0 {
			t.Errorf("Collect(0, %d) returned %s and error %v", id, got, err)
		}
	}
}

func TestCollect(t *testing.T) {
	for want, ids := range map[mask.Mask][]int32{0: nil, mask.Of(0, 63): {63, 0, 63}} {
		if got, err := mask.Collect(ids); err != nil || got != want {
			t.Errorf("Collect(%v) returned %s and error %v, want %s", ids, got, err, want)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestAllCanBeLeft(t *testing.T) {
	seen := 0
	for range mask.Of(1, 2, 3).All() {
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("saw %d nodes, wanted to leave after 2", seen)
	}
}

// twin is the same set as a map.
type twin map[int]bool

func twinOf(m mask.Mask) twin {
	s := twin{}
	for n := range 64 {
		if uint64(m)&(1<<n) != 0 {
			s[n] = true
		}
	}
	return s
}

func (s twin) nodes() []int { return slices.Sorted(maps.Keys(s)) }

func masks() *rapid.Generator[mask.Mask] {
	return rapid.Custom(func(t *rapid.T) mask.Mask {
		m := mask.Mask(rapid.Uint64().Draw(t, "bits"))
		if rapid.Bool().Draw(t, "sparse") {
			m &= mask.Mask(rapid.Uint64().Draw(t, "and"))
		}
		return m
	})
}

func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := masks().Draw(t, "a"), masks().Draw(t, "b")
		id := rapid.IntRange(0, mask.MaxNode).Draw(t, "id")
		s, other := twinOf(a), twinOf(b)
		nodes := s.nodes()
		if got := a.Nodes(); got == nil || !slices.Equal(got, nodes) {
			t.Fatalf("nodes %v, want %v", got, nodes)
		}
		if got := slices.Collect(a.All()); !slices.Equal(got, nodes) {
			t.Fatalf("all yields %v, want %v", got, nodes)
		}
		if a.Len() != len(s) || a.IsEmpty() != (len(s) == 0) || a.Has(id) != s[id] {
			t.Fatalf("%s: len %d, empty %v, has %d %v", a, a.Len(), a.IsEmpty(), id, a.Has(id))
		}
		low, high := -1, -1
		if len(nodes) > 0 {
			low, high = nodes[0], nodes[len(nodes)-1]
		}
		if a.Lowest() != low || a.Highest() != high {
			t.Fatalf("%s: lowest %d, highest %d", a, a.Lowest(), a.Highest())
		}
		inside := !slices.ContainsFunc(other.nodes(), func(n int) bool { return !s[n] })
		if a.Contains(b) != inside || !a.Contains(a&b) {
			t.Fatalf("%s contains %s: %v", a, b, a.Contains(b))
		}
		s[id] = true
		if got := a.With(id); got != mask.Of(s.nodes()...) {
			t.Fatalf("%s with %d is %s", a, id, got)
		}
		delete(s, id)
		if got := a.Without(id); got != mask.Of(s.nodes()...) {
			t.Fatalf("%s without %d is %s", a, id, got)
		}
	})
}

func TestTextFormReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := masks().Draw(t, "mask")
		if got, err := mask.Parse(m.String()); err != nil || got != m {
			t.Fatalf("%s reads back as %s, %v", m, got, err)
		}
	})
}

// TestOrderIsTotal checks that exactly one of two different masks is narrower, and that the order
// has no cycles.
func TestOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(masks(), 2, 8).Draw(t, "masks")
		compare := func(a, b mask.Mask) int {
			switch {
			case a.NarrowerThan(b):
				return -1
			case b.NarrowerThan(a):
				return 1
			}
			return 0
		}
		if a, b := list[0], list[1]; (compare(a, b) == 0) != (a == b) || compare(a, b) != -compare(b, a) {
			t.Fatalf("%s and %s compare as %d and %d", a, b, compare(a, b), compare(b, a))
		}
		again := rapid.Permutation(list).Draw(t, "again")
		slices.SortFunc(list, compare)
		slices.SortFunc(again, compare)
		if !slices.Equal(list, again) {
			t.Fatalf("sorted as %v and as %v", list, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", "{0,2-3}", "63", "0-63", "{", "1-0", "64", "0,0,0", "00", "{0-}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := mask.Parse(text)
		if err != nil {
			if m != 0 || !errors.Is(err, mask.ErrSyntax) {
				t.Fatalf("Parse(%q) = %s and %v", text, m, err)
			}
			return
		}
		if again, err := mask.Parse(m.String()); err != nil || again != m {
			t.Fatalf("Parse(%q) = %s, which reads back as %s, %v", text, m, again, err)
		}
	})
}
