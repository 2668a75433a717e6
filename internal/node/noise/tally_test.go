package noise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

var all = [noise.NumCounted]bool{true, true, true, true, true}

// reading returns a reading in which each CPU has the same count of device interrupts and timer
// ticks.
func reading(seconds int, counts map[int]uint64) noise.Reading {
	r := noise.Reading{At: time.Duration(seconds) * time.Second, CPUs: map[int]noise.Counts{}, Known: all}
	for cpu, n := range counts {
		r.CPUs[cpu] = noise.Counts{n, n}
	}
	return r
}

func owner(pod string, cpus ...int) noise.Owner {
	return noise.Owner{Pod: pod, Container: "c", CPUs: cpuset.Of(cpus...)}
}

func TestTally(t *testing.T) {
	var tally noise.Tally
	for i, step := range []struct {
		counts map[int]uint64
		owners []noise.Owner
		want   string
	}{
		{map[int]uint64{1: 100, 2: 100}, []noise.Owner{owner("a", 1, 2)}, "a 0"},
		{map[int]uint64{1: 110, 2: 101}, []noise.Owner{owner("a", 1, 2)}, "a 11"},
		// It has CPU 3 instead of CPU 2: nothing is known about CPU 3 before.
		{map[int]uint64{1: 120, 3: 900}, []noise.Owner{owner("a", 1, 3)}, "a 21"},
		// CPU 1 is offline for a while.
		{map[int]uint64{3: 905}, []noise.Owner{owner("a", 1, 3)}, "a 26"},
		{map[int]uint64{1: 500, 3: 906}, []noise.Owner{owner("a", 1, 3)}, "a 27"},
		// An interrupt ended, and the sum fell.
		{map[int]uint64{1: 30, 3: 906}, []noise.Owner{owner("a", 1, 3)}, "a 27"},
		{map[int]uint64{1: 35, 3: 906}, []noise.Owner{owner("a", 1, 3), owner("b", 4)}, "a 32 b 0"},
		// The pod is created again with the same name while the old one ends.
		{map[int]uint64{1: 36, 3: 906, 4: 1}, []noise.Owner{owner("a", 1, 3), owner("a", 4)}, "a 33"},
		{nil, nil, ""},
		{map[int]uint64{1: 40}, []noise.Owner{owner("a", 1)}, "a 0"},
	} {
		tally.Add(reading(10*i+10, step.counts), step.owners)
		got := ""
		for _, s := range tally.All() {
			if s.Counts[0] != s.Counts[1] || s.Counts[2] != 0 {
				t.Errorf("step %d: %v", i, s)
			}
			got += fmt.Sprintf(" %s %d", s.Pod, s.Counts[0])
		}
		if got != "" {
			got = got[1:]
		}
		if got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestTallyWraps checks that a counter of 32 bits that wraps has grown.
func TestTallyWraps(t *testing.T) {
	var tally noise.Tally
	tally.Add(reading(10, map[int]uint64{1: 1<<32 + 1<<32 - 5}), []noise.Owner{owner("a", 1)})
	tally.Add(reading(20, map[int]uint64{1: 1<<32 + 15}), []noise.Owner{owner("a", 1)})
	if got := tally.All()[0].Counts[0]; got != 20 {
		t.Errorf("it grew by %d", got)
	}
	rates, interval := tally.Rates()
	if rates[1][0] != 2 || interval != 10*time.Second {
		t.Errorf("%v in %v", rates, interval)
	}
}

// TestTallyIsBounded checks that the number of series does not grow with that of the containers,
// and that nothing that is counted is lost.
func TestTallyIsBounded(t *testing.T) {
	var tally noise.Tally
	before, after := map[int]uint64{}, map[int]uint64{}
	var owners []noise.Owner
	for cpu := range 5000 {
		before[cpu], after[cpu] = 0, 1
		owners = append(owners, owner(fmt.Sprint("pod", cpu), cpu))
	}
	tally.Add(reading(10, before), owners)
	tally.Add(reading(20, after), owners)
	series, sum := tally.All(), uint64(0)
	for _, s := range series {
		sum += s.Counts[0]
	}
	if len(series) != noise.MostSeries+1 || series[0].Pod != "" || sum != 5000 {
		t.Errorf("%d series with %d", len(series), sum)
	}
}

// TestUnknownClasses checks that a class that cannot be read is not counted.
func TestUnknownClasses(t *testing.T) {
	var tally noise.Tally
	for i := range 2 {
		r := reading(10*i+10, map[int]uint64{1: uint64(i)})
		r.Known[1] = i == 1
		tally.Add(r, []noise.Owner{owner("a", 1)})
	}
	if got := tally.All()[0].Counts; got != (noise.Counts{1}) {
		t.Errorf("%v", got)
	}
}

// BenchmarkTally adds readings of containers with one exclusive CPU each.
func BenchmarkTally(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			var owners []noise.Owner
			counts := map[int]uint64{}
			for cpu := range n {
				owners, counts[cpu] = append(owners, owner(fmt.Sprint("pod", cpu), cpu)), uint64(cpu)
			}
			var tally noise.Tally
			r := reading(1, counts)
			b.ReportAllocs()
			for b.Loop() {
				r.At += time.Second
				tally.Add(r, owners)
			}
		})
	}
}
