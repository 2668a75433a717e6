package cpu_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// TestEffective checks that the points of a Behavior that Effective leaves out change no result.
func TestEffective(t *testing.T) {
	left, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		o := cpu.Options{Behavior: cpu.Behavior{
			AverageUnits: rapid.Bool().Draw(t, "average"), SharedSubsets: rapid.Bool().Draw(t, "subsets"), WholeCoresOfUncore: rapid.Bool().Draw(t, "whole cores"),
		}}
		o.Behavior.EndlessRemainder = o.Behavior.SharedSubsets
		switch rapid.IntRange(0, 3).Draw(t, "method") {
		case 0:
			o.DistributeAcrossNUMA = true
		case 1:
			o.DistributeAcrossCores = true
		case 2:
			o.PreferUncore = true
		}
		available := cpuset.Of(drawAvailable(t, m)...)
		n := rapid.IntRange(0, available.Len()).Draw(t, "need")
		effective := o.Effective(m)
		if effective.Behavior == o.Behavior {
			kept++
		} else {
			left++
		}
		want, wrong := cpu.Take(m, o, available, n)
		got, err := cpu.Take(m, effective, available, n)
		if !got.Equal(want) || (err == nil) != (wrong == nil) {
			t.Fatalf("got %v and %v, with all points %v and %v", got, err, want, wrong)
		}
	})
	if left == 0 || kept == 0 {
		t.Errorf("points were left out %d times and kept %d times: the draws are not what this test needs", left, kept)
	}
}
