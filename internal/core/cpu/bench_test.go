package cpu_test

import (
	"strconv"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// bigMachine returns a machine with 2 sockets, SMT siblings c and c+cores, and an uncore cache for
// every 8 cores.
func bigMachine(b *testing.B, nodes, coresPerNode int) *machine.Machine {
	b.Helper()
	total := nodes * coresPerNode
	var d machine.Description
	for n := range nodes {
		nd := machine.NodeDescription{ID: n}
		for c := n * coresPerNode; c < (n+1)*coresPerNode; c++ {
			nd.Cores = append(nd.Cores, machine.CoreDescription{
				Socket: n * 2 / nodes, Uncore: c / 8, Threads: []int{c, c + total},
			})
		}
		d.Nodes = append(d.Nodes, nd)
	}
	m, err := machine.New(d)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// someBusy returns the CPUs of the machine without a few cores of each NUMA node. The number of
// cores differs between NUMA nodes.
func someBusy(m *machine.Machine) cpuset.Set {
	free := m.AllCPUs()
	for i := range m.CPUNodes() {
		for c := range (i*7 + 2) % 13 {
			free = free.Difference(m.Cores()[m.Index().NodeCores[i][c]].CPUs)
		}
	}
	return free
}

func BenchmarkTake(b *testing.B) {
	options := []struct {
		name string
		o    cpu.Options
	}{
		{"packed", cpu.Options{}},
		{"spread", cpu.Options{DistributeAcrossCores: true}},
		{"uncore", cpu.Options{PreferUncore: true}},
		{"distributed", cpu.Options{DistributeAcrossNUMA: true}},
		{"distributed-full-cores", cpu.Options{DistributeAcrossNUMA: true, FullPCPUsOnly: true}},
	}
	m := bigMachine(b, 8, 32)
	free := someBusy(m)
	for _, c := range options {
		for _, n := range []int{1, 16, 130} {
			b.Run(c.name+"/512cpus/n="+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := cpu.Take(m, c.o, free, n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkTakeDistributedOverManyNUMANodes(b *testing.B) {
	for _, nodes := range []int{16, 32, 64} {
		m := bigMachine(b, nodes, 16)
		free := someBusy(m)
		for _, half := range []int{8, 2} {
			n := (nodes/half*32 - 2)
			b.Run(strconv.Itoa(nodes)+"nodes/n="+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := cpu.Take(m, cpu.Options{DistributeAcrossNUMA: true}, free, n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSplitAtItsWorst measures the hardest known case: very uneven NUMA nodes and a remainder
// of many groups.
func BenchmarkSplitAtItsWorst(b *testing.B) {
	free := make([]int, 64)
	for i := range free {
		free[i] = 40 + i*i*37%997
	}
	for _, k := range []int{16, 33, 48} {
		b.Run("k="+strconv.Itoa(k), func(b *testing.B) {
			for b.Loop() {
				if x, _ := cpu.SplitForTest(free, k*20+k-1, k, 1); x == nil {
					b.Fatal("no split")
				}
			}
		})
	}
}

func BenchmarkHints(b *testing.B) {
	m := bigMachine(b, 8, 32)
	free := someBusy(m)
	b.ReportAllocs()
	for b.Loop() {
		cpu.Hints(m, cpu.Options{AlignBySocket: true}, free, cpuset.Set{}, 100)
	}
}
