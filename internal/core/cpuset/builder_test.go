package cpuset_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

func TestBuilderForgetsWhatIsRemoved(t *testing.T) {
	var b cpuset.Builder
	b.AddSet(cpuset.Of(1, 70, 200))
	for _, id := range []int{-1, 2, 200, 201, 1 << 20} {
		b.Remove(id)
	}
	for id, want := range map[int]bool{-1: false, 1: true, 2: false, 70: true, 200: false, 1 << 20: false} {
		if got := b.Has(id); got != want {
			t.Errorf("Has(%d) = %v, want %v", id, got, want)
		}
	}
	if got, want := b.Set(), cpuset.Of(1, 70); !got.Equal(want) {
		t.Errorf("built %q, want %q", got, want)
	}
	if b.Has(1) {
		t.Error("the builder is not empty after Set")
	}
}

func TestBuilderReportsWhatWasRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start, removed, of := pairs().Draw(t, "start"), pairs().Draw(t, "removed"), pairs().Draw(t, "of")
		set := cpuset.Of(start.ids()...)
		b := cpuset.BuilderOf(set, make([]uint64, rapid.IntRange(0, 4).Draw(t, "buffer")))
		for id := range removed {
			b.Remove(id)
		}
		want := of.filter(func(id int) bool { return !start[id] || removed[id] })
		if got := b.Removed(cpuset.Of(of.ids()...)); !got.Equal(cpuset.Of(want.ids()...)) {
			t.Fatalf("removed %q, want %v", got, want.ids())
		}
		if !set.Equal(cpuset.Of(start.ids()...)) {
			t.Fatalf("the set that the builder began with is %q now", set)
		}
	})
}
