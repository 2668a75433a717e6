package cpu_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// drawMachine draws machines of all shapes: SMT of 1, 2, 4 and mixed; more sockets than NUMA nodes
// and fewer; NUMA nodes that span two sockets, are uneven or have no CPUs; uncore caches that are
// missing, shared between NUMA nodes or several to a NUMA node; ids with gaps; and threads numbered
// side by side, far apart or at random.
func drawMachine(t *rapid.T) *machine.Machine {
	return newMachine(t, drawDescription(t))
}

func newMachine(t rapid.TB, d machine.Description) *machine.Machine {
	m, err := machine.New(d)
	if err != nil {
		t.Fatalf("machine %+v: %v", d, err)
	}
	return m
}

func drawDescription(t *rapid.T) machine.Description {
	nodes := rapid.IntRange(1, 6).Draw(t, "NUMA nodes")
	sockets := rapid.IntRange(1, 4).Draw(t, "sockets")
	cores := rapid.IntRange(1, 6).Draw(t, "cores per NUMA node")
	smt := rapid.SampledFrom([]int{1, 2, 2, 4, 0}).Draw(t, "threads per core, 0 mixed")
	uneven := rapid.SampledFrom([]bool{false, false, true}).Draw(t, "uneven")
	uncores := rapid.IntRange(0, 3).Draw(t, "uncore caches per NUMA node, 0 none")
	shared := rapid.SampledFrom([]bool{false, false, true}).Draw(t, "uncore caches span NUMA nodes")
	mixedSockets := rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "NUMA nodes span sockets")
	gap := rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "NUMA id step")

	var d machine.Description
	var all []*int
	for n := range nodes {
		nd := machine.NodeDescription{ID: n * gap}
		count := cores
		if uneven {
			count = rapid.IntRange(0, 6).Draw(t, "cores")
		}
		if n == nodes-1 && len(all) == 0 {
			count = max(1, count)
		}
		for c := range count {
			core := machine.CoreDescription{Socket: n * sockets / nodes, Uncore: machine.NoUncore}
			if mixedSockets {
				core.Socket = rapid.IntRange(0, sockets-1).Draw(t, "socket")
			}
			if uncores > 0 {
				core.Uncore = n*uncores + c*uncores/count
				if shared {
					core.Uncore = rapid.IntRange(0, 2*uncores-1).Draw(t, "uncore")
				}
			}
			threads := smt
			if smt == 0 {
				threads = rapid.IntRange(1, 3).Draw(t, "threads")
			}
			core.Threads = make([]int, threads)
			nd.Cores = append(nd.Cores, core)
			for i := range core.Threads {
				all = append(all, &core.Threads[i])
			}
		}
		d.Nodes = append(d.Nodes, nd)
	}
	number(t, d, all)
	return d
}

// number gives the threads their ids.
func number(t *rapid.T, d machine.Description, all []*int) {
	switch rapid.IntRange(0, 2).Draw(t, "numbering") {
	case 0: // siblings side by side
		for i, thread := range all {
			*thread = i
		}
	case 1: // first threads of all cores, then second threads
		next := 0
		for sibling := range 4 {
			for _, n := range d.Nodes {
				for _, c := range n.Cores {
					if sibling < len(c.Threads) {
						c.Threads[sibling] = next
						next++
					}
				}
			}
		}
	default:
		ids := make([]int, len(all))
		for i := range ids {
			ids[i] = i * 2
		}
		for i, id := range rapid.Permutation(ids).Draw(t, "ids") {
			*all[i] = id
		}
	}
}

// drawAvailable draws the available CPUs: often all, often most, sometimes any.
func drawAvailable(t *rapid.T, m *machine.Machine) []int {
	busy := rapid.SampledFrom([]int{0, 1, 3, 5, 8}).Draw(t, "busy tenths")
	wholeCores := rapid.Bool().Draw(t, "whole cores")
	taken := map[int]bool{}
	var ids []int
	for _, c := range m.CPUs() {
		key := c.ID
		if wholeCores {
			key = c.Core
		}
		if _, known := taken[key]; !known {
			taken[key] = rapid.IntRange(1, 10).Draw(t, "busy") <= busy
		}
		if !taken[key] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func compareTake(t *rapid.T, o cpu.Options) {
	m := drawMachine(t)
	ids := drawAvailable(t, m)
	if len(ids) == 0 {
		return
	}
	n := rapid.IntRange(1, len(ids)).Draw(t, "n")
	available := cpuset.Of(ids...)
	got, err := cpu.Take(m, o, available, n)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	if got.Len() != n || !available.Contains(got) {
		t.Fatalf("Take(%q, %d) = %q: not %d of them", available, n, got, n)
	}
	if want := literalTake(m, o, ids, n); !got.Equal(want) {
		t.Fatalf("Take(%q, %d) = %q, the rules say %q", available, n, got, want)
	}
}

func TestTakeIsWhatTheRulesSay(t *testing.T) {
	for name, o := range map[string]cpu.Options{
		"packed":                     {},
		"spread":                     {DistributeAcrossCores: true},
		"uncore":                     {PreferUncore: true},
		"distributed":                {DistributeAcrossNUMA: true},
		"distributed in full cores":  {DistributeAcrossNUMA: true, FullPCPUsOnly: true},
		"uncore and spread":          {PreferUncore: true, DistributeAcrossCores: true},
		"distributed, not by uncore": {DistributeAcrossNUMA: true, PreferUncore: true},
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) { compareTake(t, o) }))
	}
}

// TestTakeHoldsOnMachinesThatMisreport checks machines that report wrong CPU or socket counts,
// which distorts the averages. Whatever the counts and options are, Take returns n of the available
// CPUs. Allocate returns as many as Take and starts with the CPUs of the mask.
func TestTakeHoldsOnMachinesThatMisreport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDescription(t)
		d.CPUs = rapid.IntRange(0, 60).Draw(t, "reported CPUs")
		d.Sockets = rapid.IntRange(0, 9).Draw(t, "reported sockets")
		m := newMachine(t, d)
		o := cpu.Options{
			FullPCPUsOnly:         rapid.Bool().Draw(t, "full-pcpus-only"),
			DistributeAcrossNUMA:  rapid.Bool().Draw(t, "distribute-cpus-across-numa"),
			DistributeAcrossCores: rapid.Bool().Draw(t, "distribute-cpus-across-cores"),
			PreferUncore:          rapid.Bool().Draw(t, "prefer-align-cpus-by-uncorecache"),
		}
		available := cpuset.Of(drawAvailable(t, m)...)
		n := rapid.IntRange(0, available.Len()).Draw(t, "n")
		got, err := cpu.Take(m, o, available, n)
		if err != nil || got.Len() != n || !available.Contains(got) {
			t.Fatalf("Take(%q, %d) = %q, %v", available, n, got, err)
		}
		nodes := m.NodesOf(cpuset.Of(rapid.SampledFrom(m.AllCPUs().IDs()).Draw(t, "CPU of the mask")))
		got, err = cpu.Allocate(m, o, available, nodes, true, n)
		if err != nil || got.Len() != n || !available.Contains(got) {
			t.Fatalf("Allocate(%q, %s, %d) = %q, %v", available, nodes, n, got, err)
		}
		local := m.CPUsOf(nodes)
		if want := min(n, available.IntersectionLen(local)); got.IntersectionLen(local) < want {
			t.Fatalf("Allocate(%q, %s, %d) = %q: fewer than %d in the mask", available, nodes, n, got, want)
		}
		var scarce *cpu.NotEnoughError
		if _, err = cpu.Allocate(m, o, available, nodes, true, available.Len()+1); !errors.As(err, &scarce) {
			t.Fatalf("Allocate of more than there is: %v", err)
		}
	})
}

// TestSplitIsTheFirstBestOfTheEnumeration tests only the search for X and Z. This reaches cases
// that machines with a few CPUs do not have.
func TestSplitIsTheFirstBestOfTheEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{3, 6, 12, 40, 20000}).Draw(t, "most free")
		size := rapid.IntRange(1, most)
		if most == 20000 { // large and close: deviations that are equal only when rounded
			size = rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(most, most+9))
		}
		free := rapid.SliceOfN(size, 1, 8).Draw(t, "free")
		if rapid.Bool().Draw(t, "in order") {
			slices.Sort(free)
		}
		g := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "group")
		sum := 0
		for _, f := range free {
			sum += f
		}
		if sum < g {
			return
		}
		groups := rapid.IntRange(1, min(sum/g, 60000)).Draw(t, "groups")
		k := rapid.IntRange(1, min(len(free), groups)).Draw(t, "k")
		wantX, wantZ := literalSearch(free, groups*g, k, g)
		x, extra := cpu.SplitForTest(free, groups*g, k, g)
		if !slices.Equal(x, wantX) {
			t.Fatalf("X = %v, the enumeration says %v", x, wantX)
		}
		if want := literalExtra(free, wantX, wantZ, groups*g, k, g); !slices.Equal(extra, want) {
			t.Fatalf("X = %v: remainder %v, the enumeration says %v by %v", x, extra, want, wantZ)
		}
	})
}

// literalExtra distributes the remainder over Z and returns the number of groups that each NUMA
// node of X gives.
func literalExtra(free, x, z []int, n, k, g int) []int {
	e := n / k / g * g
	var extra []int
	given := map[int]int{}
	if x == nil {
		return nil
	}
	for r := n - e*k; r > 0; {
		for _, i := range z {
			if r > 0 && free[i]-e-given[i]*g >= g {
				given[i]++
				r -= g
			}
		}
	}
	for _, i := range x {
		extra = append(extra, given[i])
	}
	return extra
}
