package cpuset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

func TestTextForm(t *testing.T) {
	for _, c := range []struct {
		set  cpuset.Set
		text string
	}{
		{cpuset.Set{}, ""},
		{cpuset.Of(0), "0"},
		{cpuset.Of(0, 1), "0-1"},
		{cpuset.Of(9, 0, 3, 2, 1), "0-3,9"},
		{cpuset.Of(62, 63, 64, 65), "62-65"},
		{cpuset.Of(64, 128), "64,128"},
		{cpuset.Range(0, 191), "0-191"},
		{cpuset.Of(0, cpuset.MaxID), "0,65535"},
	} {
		if got := c.set.String(); got != c.text {
			t.Errorf("%v is written %q, want %q", c.set.IDs(), got, c.text)
		}
		if got, err := cpuset.Parse(c.text); err != nil || !got.Equal(c.set) {
			t.Errorf("Parse(%q) = %q, %v", c.text, got, err)
		}
	}
}

func TestParseAcceptsDisorder(t *testing.T) {
	for text, want := range map[string]string{
		"3,1,2":       "1-3",
		"0-5,3-8,4":   "0-8",
		"5-5":         "5",
		"007":         "7",
		"70,0-1,69":   "0-1,69-70",
		"63-64,64-65": "63-65",
	} {
		if got, err := cpuset.Parse(text); err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for text, want := range map[string]string{
		" ":            `element " "`,
		"0,":           `element ""`,
		",":            `element ""`,
		"0, 1":         `element " 1"`,
		"0-3\n":        `element "0-3\n"`,
		"-1":           `element "-1"`,
		"+1":           `element "+1"`,
		"1-":           `element "1-"`,
		"1-2-3":        `element "1-2-3"`,
		"0x1":          `element "0x1"`,
		"3-1":          `range "3-1" runs backwards`,
		"65536":        "CPU ids end at 65535",
		"0-4000000000": "CPU ids end at 65535",
		"0-4294967296": "expected a CPU id",
		"0-2:1/2":      `element "0-2:1/2"`,
	} {
		got, err := cpuset.Parse(text)
		if !errors.Is(err, cpuset.ErrSyntax) || !got.IsEmpty() || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %q, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestEmptySet(t *testing.T) {
	var s cpuset.Set
	some := cpuset.Of(3, 70)
	for name, e := range map[string]cpuset.Set{
		"zero value": s, "Of()": cpuset.Of(), "backward range": cpuset.Range(4, 3),
		"difference": some.Difference(some), "intersection": some.Intersection(cpuset.Of(4)),
	} {
		if !e.IsEmpty() || e.Len() != 0 || e.Lowest() != -1 || e.Highest() != -1 || e.String() != "" || !e.Equal(s) {
			t.Errorf("%s is not the empty set: %q", name, e)
		}
		if e.IDs() == nil || len(e.IDs()) != 0 {
			t.Errorf("%s has ids %v", name, e.IDs())
		}
		if !some.Contains(e) || !e.Contains(e) || e.Contains(some) || e.Intersects(some) || !some.Union(e).Equal(some) {
			t.Errorf("%s does not behave as the empty set beside %q", name, some)
		}
	}
}

func TestIDsOutsideTheRange(t *testing.T) {
	s := cpuset.Of(0, 63, 64)
	for _, id := range []int{-1 << 40, -64, -1, cpuset.MaxID + 1, 1 << 40} {
		if s.Has(id) {
			t.Errorf("%q has %d", s, id)
		}
		if !panics(func() { _ = cpuset.Of(id) }) {
			t.Errorf("Of(%d) did not panic", id)
		}
	}
	for _, r := range [][2]int{{-1, 3}, {-3, -1}, {3, cpuset.MaxID + 1}, {cpuset.MaxID + 1, 1 << 40}} {
		if !panics(func() { _ = cpuset.Range(r[0], r[1]) }) {
			t.Errorf("Range(%d, %d) did not panic", r[0], r[1])
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestSetsShareNothingThatChanges checks that a set from a builder or from another set does not
// change, whatever is done with its source.
func TestSetsShareNothingThatChanges(t *testing.T) {
	var b cpuset.Builder
	b.Add(1)
	b.Add(200)
	first := b.Set()
	b.Add(2)
	if got := b.Set(); got.String() != "2" || first.String() != "1,200" {
		t.Errorf("the builder went on with %q and left %q", got, first)
	}
	b.AddSet(first)
	b.Add(3)
	b.Remove(1)
	if got := b.Set(); got.String() != "3,200" || first.String() != "1,200" {
		t.Errorf("built %q of %q", got, first)
	}
	same := first.Union(cpuset.Set{})
	if _ = same.Union(cpuset.Of(5)); first.String() != "1,200" || same.String() != "1,200" {
		t.Errorf("a union changed its operands: %q and %q", first, same)
	}
}

func TestAllCanBeLeft(t *testing.T) {
	var seen []int
	for id := range cpuset.Of(1, 64, 65, 200).All() {
		if seen = append(seen, id); len(seen) == 2 {
			break
		}
	}
	if !slices.Equal(seen, []int{1, 64}) {
		t.Errorf("saw %v, wanted to leave after 1 and 64", seen)
	}
}
