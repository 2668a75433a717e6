package cpuset_test

import (
	"testing"

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
