package hint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
)

const gib = 1 << 30

// testbed is a machine, reduced to what matters for hints, and the amounts that are free on it.
type testbed struct {
	name      string
	distances [][]int
	cpus      []int64 // all CPUs, by NUMA node
	free      []int64
	memory    []int64
	freeMem   []int64
	devices   [][]int64 // by resource and NUMA node
	groups    []mask.Mask
}

// newTestbed returns a testbed whose NUMA node n has cpus(n) CPUs and mem(n) bytes. far returns the
// distance between two different NUMA nodes.
func newTestbed(name string, nodes int, cpus, mem func(int) int64, far func(a, b int) int) *testbed {
	m := &testbed{name: name, distances: make([][]int, nodes)}
	for a := range nodes {
		m.cpus = append(m.cpus, cpus(a))
		m.memory = append(m.memory, mem(a))
		for b := range nodes {
			d := 10
			if a != b {
				d = far(a, b)
			}
			m.distances[a] = append(m.distances[a], d)
		}
	}
	return m
}

func constant(n int64) func(int) int64 { return func(int) int64 { return n } }

// testbeds returns four machines: a GB200 tray, whose GPUs add 32 NUMA nodes without CPUs; two
// sockets with 16 NUMA nodes each, in quads; 32 NUMA nodes with CPUs and 32 with high-bandwidth
// memory; and a server with 8 NUMA nodes, GPUs and NICs.
func testbeds() []*testbed {
	hasCPU := func(below int, n int64) func(int) int64 {
		return func(a int) int64 {
			if a < below {
				return n
			}
			return 0
		}
	}
	beds := []*testbed{
		newTestbed("gb200", 34, hasCPU(2, 72), func(a int) int64 {
			switch {
			case a < 2:
				return 480 * gib
			case a%8 == 2:
				return 186 * gib
			}
			return 0
		}, func(a, b int) int {
			if a < 2 && b < 2 {
				return 40
			}
			return 80
		}),
		newTestbed("quads32", 32, constant(8), constant(32*gib), func(a, b int) int {
			switch {
			case a/4 == b/4:
				return 11
			case a/16 == b/16:
				return 12
			}
			return 32
		}),
		newTestbed("hbm64", 64, hasCPU(32, 6), func(a int) int64 {
			if a < 32 {
				return 32 * gib
			}
			return 8 * gib
		}, func(a, b int) int {
			switch {
			case a%32 == b%32:
				return 13
			case a%32/16 == b%32/16:
				return 20
			}
			return 30
		}),
		newTestbed("server8", 8, constant(24), constant(96*gib), func(a, b int) int {
			if a/4 == b/4 {
				return 12
			}
			return 32
		}),
	}
	beds[0].devices = [][]int64{make([]int64, 34)}
	beds[0].devices[0][0], beds[0].devices[0][1] = 2, 2
	beds[3].devices = [][]int64{{1, 1, 1, 1, 1, 1, 1, 1}, {0, 2, 0, 0, 0, 2, 0, 0}}
	return beds
}

// fill sets the free amounts: everything, half of it, or 50 to 90 % of each NUMA node, with some
// NUMA nodes bound into memory groups.
func (m *testbed) fill(state string, r *rand.Rand) {
	m.free, m.freeMem, m.groups = slices.Clone(m.cpus), slices.Clone(m.memory), nil
	for a := range m.cpus {
		switch state {
		case "half":
			m.free[a] /= 2
			m.freeMem[a] /= 2
		case "fragmented":
			m.free[a] = m.free[a] * (50 + r.Int64N(41)) / 100
			m.freeMem[a] = m.freeMem[a] * (50 + r.Int64N(41)) / 100
		}
	}
	for a := 0; state == "fragmented" && a+1 < len(m.cpus); a += 8 {
		m.groups = append(m.groups, mask.Of(a, a+1))
	}
}

func sized(f Set, candidates mask.Mask, needs ...Need) Set {
	f.Kind = Fits
	f.Preferred = candidates.Len()
	if n, ok := MinSize(candidates, needs); ok {
		f.Preferred = n
	}
	return f
}

func where(offer []int64) mask.Mask {
	var m mask.Mask
	for a, n := range offer {
		if n > 0 {
			m = m.With(a)
		}
	}
	return m
}

func (m *testbed) cpu(n int64) Set {
	f := Set{Resource: "cpu", Candidates: where(m.cpus), Needs: []Need{{Amount: n, Offer: m.free}}}
	return sized(f, f.Candidates, Need{Amount: n, Offer: m.cpus})
}

func (m *testbed) mem(types int, n int64) Set {
	all := (^mask.Mask(0)).First(len(m.cpus))
	f := Set{Resource: "memory", Candidates: all, Copies: types}
	need, most := Need{Amount: n, Offer: m.freeMem}, Need{Amount: n, Offer: m.memory}
	for range types {
		f.Needs = append(f.Needs, need)
	}
	for _, g := range m.groups {
		f.Candidates &^= g
		if need.Offered(g) >= need.Amount {
			f.Explicit = append(f.Explicit, g)
		}
	}
	return sized(f, all, most)
}

func (m *testbed) device(i int, n int64) Set {
	f := Set{Resource: fmt.Sprint("device", i), Candidates: where(m.devices[i])}
	f.Needs = []Need{{Amount: n, Offer: m.devices[i]}}
	return sized(f, f.Candidates, f.Needs...)
}

// cases returns requests for several resources, from a quarter of a NUMA node to the equivalent of
// twenty NUMA nodes, without those that exceed the machine.
func (m *testbed) cases() [][]Set {
	var all [][]Set
	for _, quarters := range []int64{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80} {
		cpus, bytes, devices := quarters*m.cpus[0]/4, quarters*m.memory[0]/4, (quarters+3)/4
		all = append(all, []Set{m.cpu(cpus)}, []Set{m.mem(1, bytes)},
			[]Set{m.cpu(cpus), m.mem(1, bytes)}, []Set{m.cpu(cpus), m.mem(3, bytes)})
		for i := range m.devices {
			all = append(all, []Set{m.device(i, devices), m.cpu(cpus), m.mem(1, bytes)})
		}
	}
	return slices.DeleteFunc(all, func(c []Set) bool { return slices.ContainsFunc(c, Set.IsEmpty) })
}

// BenchmarkMerge measures Merge in turn for requests from a quarter of a NUMA node to twenty NUMA
// nodes.
func BenchmarkMerge(b *testing.B) {
	for _, m := range testbeds() {
		for _, state := range []string{"empty", "half", "fragmented"} {
			m.fill(state, rand.New(rand.NewPCG(1, 1)))
			cases := m.cases()
			for _, order := range []string{"narrow", "closest"} {
				rules := Rules{Nodes: (^mask.Mask(0)).First(len(m.cpus))}
				if order == "closest" {
					rules.Distances = m.distances
				}
				b.Run(m.name+"/"+state+"/"+order, func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						Merge(cases[i%len(cases)], rules)
					}
				})
			}
		}
	}
}

// BenchmarkMinSize measures MinSize for memory requests of three types on 64 NUMA nodes that differ
// slightly in each type. This is the hardest case known for machines.
func BenchmarkMinSize(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	candidates := ^mask.Mask(0)
	for _, types := range []int{1, 3} {
		needs := make([]Need, types)
		for i := range needs {
			needs[i].Amount = 20 * 16 * gib
			for range candidates.Len() {
				needs[i].Offer = append(needs[i].Offer, 16*gib-r.Int64N(gib))
			}
		}
		b.Run(fmt.Sprint(types), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				MinSize(candidates, needs)
			}
		})
	}
}
