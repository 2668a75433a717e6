package cpu_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// TestKubeletsTakeAsManyCPUs checks that, on every machine, Take with a Behavior returns CPUs of
// the machine, ErrEndless or ErrAccounting. Without Behavior.AverageUnits, the CPUs must be
// available and as many as requested.
func TestKubeletsTakeAsManyCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		o := cpu.Options{
			FullPCPUsOnly: rapid.Bool().Draw(t, "full"), DistributeAcrossNUMA: rapid.Bool().Draw(t, "distribute"),
			PreferUncore: rapid.Bool().Draw(t, "uncore"),
			Behavior: cpu.Behavior{
				AverageUnits: rapid.Bool().Draw(t, "average"), SharedSubsets: rapid.Bool().Draw(t, "subsets"), EndlessRemainder: rapid.Bool().Draw(t, "endless"),
			},
		}
		available := cpuset.Of(drawAvailable(t, m)...)
		n := rapid.IntRange(0, available.Len()).Draw(t, "n")
		got, err := cpu.Take(m, o, available, n)
		switch {
		case errors.Is(err, cpu.ErrEndless) && o.Behavior.EndlessRemainder && o.Behavior.SharedSubsets:
		case errors.Is(err, cpu.ErrAccounting) && o.Behavior.SharedSubsets:
		case err != nil:
			t.Fatalf("Take(%q, %d): %v", available, n, err)
		case !m.AllCPUs().Contains(got) || !o.Behavior.AverageUnits && (!available.Contains(got) || got.Len() != n):
			t.Fatalf("Take(%q, %d) = %q", available, n, got)
		}
	})
}

// TestAverageUnitsAreUnits checks that Behavior.AverageUnits changes nothing on machines whose
// cores and sockets all have the average size.
func TestAverageUnitsAreUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		if !even(m.Cores(), m.CPUsPerCore()) || !even(m.Sockets(), m.CPUsPerSocket()) {
			return
		}
		o := cpu.Options{PreferUncore: rapid.Bool().Draw(t, "uncore"), DistributeAcrossCores: rapid.Bool().Draw(t, "cores")}
		available := cpuset.Of(drawAvailable(t, m)...)
		n := rapid.IntRange(0, available.Len()).Draw(t, "n")
		want, err := cpu.Take(m, o, available, n)
		o.Behavior.AverageUnits = true
		if got, gotErr := cpu.Take(m, o, available, n); !got.Equal(want) || (err == nil) != (gotErr == nil) {
			t.Fatalf("Take(%q, %d) = %q, and as a kubelet %q", available, n, want, got)
		}
	})
}

func even(units []machine.Unit, size int) bool {
	for _, u := range units {
		if u.Size != size {
			return false
		}
	}
	return true
}

// TestEndlessRemainder reproduces Q-5 with NUMA nodes that have only one CPU of some cores free.
func TestEndlessRemainder(t *testing.T) {
	d := machine.Description{}
	for n := range 4 {
		at := machine.NodeDescription{ID: n}
		for c := range 4 {
			id := n*4 + c
			at.Cores = append(at.Cores, machine.CoreDescription{Socket: n, Uncore: machine.NoUncore, Threads: []int{id, id + 16}})
		}
		d.Nodes = append(d.Nodes, at)
	}
	m := newMachine(t, d)
	// The NUMA nodes have 5, 5, 4 and 2 free CPUs.
	available := cpuset.Of(16, 1, 17, 2, 18, 20, 5, 21, 6, 22, 8, 24, 9, 25, 12, 28)
	o := cpu.Options{FullPCPUsOnly: true, DistributeAcrossNUMA: true, Behavior: cpu.Behavior{SharedSubsets: true, EndlessRemainder: true}}
	if got, err := cpu.Take(m, o, available, 14); !errors.Is(err, cpu.ErrEndless) {
		t.Errorf("got %q and error %v, want %v", got, err, cpu.ErrEndless)
	}
	o.Behavior.EndlessRemainder = false
	if got, err := cpu.Take(m, o, available, 14); err != nil || got.Len() != 14 {
		t.Errorf("without the fault: got %q and error %v", got, err)
	}
}
