package view_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestTopology prints the example machines and those of testdata/machines as tree and table, and
// compares them with testdata/topology.
func TestTopology(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../../examples/machines/*.json", "testdata/machines/*.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no machines in %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found, err := discover.Read(name, data)
			if err != nil {
				t.Fatal(err)
			}
			shown := view.Topology{Name: name, Machine: found.Machine, Remarks: found.Remarks}
			golden.Compare(t, filepath.Join("testdata/topology", name+".txt"), shown.Tree(terminal.Style{})+"\n"+shown.Table())
		})
	}
}

// TestTreeStaysShort checks that 512 threads and 8 threads of one shape take the same number of
// lines.
func TestTreeStaysShort(t *testing.T) {
	lines := func(perNode int) int {
		var d machine.Description
		for n := range 4 {
			node := machine.NodeDescription{ID: n, Memory: 1 << 30}
			for i := range perNode {
				first := n + 4*i // NUMA nodes take turns, so that no set has ranges.
				node.Cores = append(node.Cores, machine.CoreDescription{Socket: n / 2, Threads: []int{first, first + 4*perNode}, Uncore: machine.NoUncore})
			}
			d.Nodes = append(d.Nodes, node)
		}
		m, err := machine.New(d)
		if err != nil {
			t.Fatal(err)
		}
		text := view.Topology{Name: "m", Machine: m}.Tree(terminal.Style{})
		for line := range strings.Lines(text) {
			if len(line) > 120 {
				t.Errorf("%d cores a node: a line of %d bytes: %s", perNode, len(line), line)
			}
		}
		return strings.Count(text, "\n")
	}
	if small, large := lines(1), lines(64); small != large {
		t.Errorf("512 threads are %d lines, 8 threads %d", large, small)
	}
}

func TestCPUs(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"", ""},
		{"5", "5"},
		{"0-3,8-9", "0-3,8-9"},
		{"0,2,4,6,8", "0,2,4,6,8"},
		{"0,2,4,6,8,10", "0,2,…,10"},
		{"0,2,4,6,8,10,12-13", "0,2,…,10,12-13"},
		{"0-1,3,5,7,9,11,13,15-16", "0-1,3,5,…,13,15-16"},
		{"0-1,4-5,8-9,12-13,16-17,20-21,23", "0-1,4-5,…,20-21,23"},
		{"0,2-3,5-7,9-12,14-18,20-25", "0,2-3,5-7,9-12,14-18,20-25"},
		{"0,4,9,15", "0,4,9,15"},
	} {
		set, err := cpuset.Parse(c.set)
		if err != nil {
			t.Fatal(err)
		}
		if got := view.CPUs(set); got != c.want {
			t.Errorf("%s: got %s, want %s", c.set, got, c.want)
		}
	}
}
