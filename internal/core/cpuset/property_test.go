package cpuset_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// twin is the same set as a map.
type twin map[int]bool

func (s twin) ids() []int { return slices.Sorted(maps.Keys(s)) }

func (s twin) filter(keep func(id int) bool) twin {
	out := twin{}
	for id := range s {
		if keep(id) {
			out[id] = true
		}
	}
	return out
}

// pairs draws sets of ids as maps. The ids cluster around word boundaries and occasionally reach
// MaxID.
func pairs() *rapid.Generator[twin] {
	return rapid.Custom(func(t *rapid.T) twin {
		high := rapid.SampledFrom([]int{7, 66, 130, 300, cpuset.MaxID}).Draw(t, "high")
		s := twin{}
		for _, first := range rapid.SliceOfN(rapid.IntRange(0, high), 0, 12).Draw(t, "ids") {
			for id := first; id <= min(high, first+rapid.IntRange(0, 3).Draw(t, "run")); id++ {
				s[id] = true
			}
		}
		return s
	})
}

func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := pairs().Draw(t, "set")
		ids := s.ids()
		set := cpuset.Of(ids...)
		if got := set.IDs(); got == nil || !slices.Equal(got, ids) {
			t.Fatalf("ids %v, want %v", got, ids)
		}
		if got := slices.Collect(set.All()); !slices.Equal(got, ids) {
			t.Fatalf("all yields %v, want %v", got, ids)
		}
		low, high := -1, -1
		if len(ids) > 0 {
			low, high = ids[0], ids[len(ids)-1]
		}
		if set.Len() != len(s) || set.IsEmpty() != (len(s) == 0) || set.Lowest() != low || set.Highest() != high {
			t.Fatalf("%q: len %d, empty %v, %d to %d", set, set.Len(), set.IsEmpty(), set.Lowest(), set.Highest())
		}
		for id := -1; id <= min(high+65, 400); id++ {
			if set.Has(id) != s[id] {
				t.Fatalf("%q has %d: %v", set, id, set.Has(id))
			}
		}
	})
}

func TestOperationsAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := pairs().Draw(t, "x"), pairs().Draw(t, "y")
		a, b := cpuset.Of(x.ids()...), cpuset.Of(y.ids()...)
		union := maps.Clone(x)
		maps.Copy(union, y)
		both := x.filter(func(id int) bool { return y[id] })
		only := x.filter(func(id int) bool { return !y[id] })
		for name, c := range map[string]struct {
			got  cpuset.Set
			want twin
		}{
			"union": {a.Union(b), union}, "intersection": {a.Intersection(b), both}, "difference": {a.Difference(b), only},
			"left": {a, x}, "right": {b, y},
		} {
			if !slices.Equal(c.got.IDs(), c.want.ids()) {
				t.Fatalf("%s of %v and %v is %q", name, x.ids(), y.ids(), c.got)
			}
			if !c.got.Equal(cpuset.Of(c.want.ids()...)) {
				t.Fatalf("%s of %v and %v is not equal to the same set made at once", name, x.ids(), y.ids())
			}
		}
		if a.IntersectionLen(b) != len(both) || a.Intersects(b) != (len(both) > 0) {
			t.Fatalf("%q and %q have %d in common, intersect: %v", a, b, a.IntersectionLen(b), a.Intersects(b))
		}
		if a.Contains(b) != (len(both) == len(y)) || a.Equal(b) != maps.Equal(x, y) {
			t.Fatalf("%q and %q: contains %v, equal %v", a, b, a.Contains(b), a.Equal(b))
		}
	})
}

// TestBuilderAgainstMap runs a sequence of changes on one builder.
func TestBuilderAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b cpuset.Builder
		s := twin{}
		id := rapid.IntRange(0, 200)
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { n := id.Draw(t, "id"); b.Add(n); s[n] = true },
			"remove": func(t *rapid.T) { n := id.Draw(t, "id"); b.Remove(n); delete(s, n) },
			"addSet": func(t *rapid.T) {
				other := pairs().Draw(t, "other")
				b.AddSet(cpuset.Of(other.ids()...))
				maps.Copy(s, other)
			},
			"set": func(t *rapid.T) {
				if got := b.Set(); !slices.Equal(got.IDs(), s.ids()) {
					t.Fatalf("built %q, want %v", got, s.ids())
				}
				clear(s)
			},
			"": func(t *rapid.T) {
				if n := id.Draw(t, "asked"); b.Has(n) != s[n] {
					t.Fatalf("has %d: %v", n, b.Has(n))
				}
			},
		})
	})
}

func TestRangeIsItsIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(0, 300).Draw(t, "first")
		last := rapid.IntRange(0, 300).Draw(t, "last")
		want := twin{}
		for id := first; id <= last; id++ {
			want[id] = true
		}
		if got := cpuset.Range(first, last); !slices.Equal(got.IDs(), want.ids()) || !got.Equal(cpuset.Of(want.ids()...)) {
			t.Fatalf("%d to %d is %q", first, last, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "1,0", "0-65535,0-65535", "65536", "3-1", "0-", ",", " 1", "00-01", "4294967296"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := cpuset.Parse(text)
		if err != nil {
			if !s.IsEmpty() || !errors.Is(err, cpuset.ErrSyntax) {
				t.Fatalf("Parse(%q) = %q and %v", text, s, err)
			}
			return
		}
		again, err := cpuset.Parse(s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("Parse(%q) = %q, which reads back as %q, %v", text, s, again, err)
		}
	})
}

// TestKeys checks that keys are the same for equal sets only, and that none begins another one.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := cpuset.Of(pairs().Draw(t, "x").ids()...), cpuset.Of(pairs().Draw(t, "y").ids()...)
		x, y := string(a.AppendKey(nil)), string(b.AppendKey(nil))
		if strings.HasPrefix(x, y) != a.Equal(b) {
			t.Fatalf("%s has key %q, and %s has key %q", a, x, b, y)
		}
		if again := string(a.Union(b).Difference(b.Difference(a)).AppendKey(nil)); again != x {
			t.Fatalf("%s has keys %q and %q", a, x, again)
		}
	})
}
