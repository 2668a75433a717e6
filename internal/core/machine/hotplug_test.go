package machine_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// twoByFour returns a machine with two sockets. Each has one NUMA node and four cores with two
// threads: 0-3,8-11 and 4-7,12-15.
func twoByFour(t testing.TB) *machine.Machine {
	t.Helper()
	var d machine.Description
	for id := range 2 {
		n := machine.NodeDescription{ID: id * 3, Memory: 1 << 30, HugePages: []machine.HugePages{{SizeKiB: 2048, Count: 4}}, Distances: []int{10, 20}}
		for k := range 4 {
			first := id*4 + k
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Threads: []int{first, first + 8}, Uncore: 5 + id})
		}
		d.Nodes = append(d.Nodes, n)
	}
	d.Nodes[1].Distances = []int{20, 10}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func set(t testing.TB, text string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithout(t *testing.T) {
	for _, c := range []struct {
		name, offline, left         string
		perCore, perSocket, sockets int
	}{
		{"nothing", "", "0-15", 2, 8, 2},
		{"one thread of a core", "8", "0-7,9-15", 2, 8, 2},
		{"the first thread of a core", "0", "1-15", 2, 8, 2},
		{"a core", "0,8", "1-7,9-15", 2, 7, 2},
		{"all second threads", "8-15", "0-7", 2, 8, 2},
		{"a NUMA node and its socket", "4-7,12-15", "0-3,8-11", 2, 8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := twoByFour(t)
			less, err := m.Without(set(t, c.offline))
			if err != nil {
				t.Fatal(err)
			}
			if got := less.AllCPUs().String(); got != c.left {
				t.Errorf("CPUs %s, want %s", got, c.left)
			}
			if less.CPUsPerCore() != c.perCore || less.CPUsPerSocket() != c.perSocket || less.NumSockets() != c.sockets {
				t.Errorf("%d CPUs a core, %d a socket, %d sockets; want %d, %d, %d",
					less.CPUsPerCore(), less.CPUsPerSocket(), less.NumSockets(), c.perCore, c.perSocket, c.sockets)
			}
			if less.NodeMask() != m.NodeMask() || less.Distance(0, 3) != 20 || less.MemoryType("hugepages-2Mi") != 1 {
				t.Errorf("NUMA nodes %s, distance %d, memory types %v: want those of before", less.NodeMask(), less.Distance(0, 3), less.MemoryTypes())
			}
			back, err := m.WithCPUs(m)
			if err != nil || !reflect.DeepEqual(back, m) {
				t.Errorf("all CPUs are online again, and the machine is another: %v", err)
			}
		})
	}
	if _, err := twoByFour(t).Without(set(t, "0-15")); err == nil {
		t.Error("a machine without CPUs is accepted")
	}
}

// TestWithoutKeepsPlaces checks that the remaining CPUs keep their core, cache, NUMA node and
// socket whichever CPUs are removed, and that the machine is as before once all CPUs are back.
func TestWithoutKeepsPlaces(t *testing.T) {
	m := twoByFour(t)
	rapid.Check(t, func(t *rapid.T) {
		gone := cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 20), 0, 15).Draw(t, "offline")...)
		less, err := m.Without(gone)
		if left := m.AllCPUs().Difference(gone); left.IsEmpty() != (err != nil) || err == nil && !less.AllCPUs().Equal(left) {
			t.Fatalf("without %s: %v", gone, err)
		}
		if err != nil {
			return
		}
		for _, c := range less.CPUs() {
			was, _ := m.CPU(c.ID)
			if c.Uncore != was.Uncore || c.Node != was.Node || c.Socket != was.Socket {
				t.Fatalf("CPU %d is at %+v, was at %+v", c.ID, c, was)
			}
			core, _ := m.CPU(c.Core)
			if core.Core != was.Core {
				t.Fatalf("CPU %d is on the core of %d, was on that of %d", c.ID, c.Core, was.Core)
			}
		}
		again, err := m.WithCPUs(less)
		if err != nil || !reflect.DeepEqual(again, less) {
			t.Fatalf("the same CPUs make another machine: %v", err)
		}
	})
}
