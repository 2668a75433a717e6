package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestRecent checks, through any history, that At finds by the generation what a look-up by name
// finds, with the amounts of that generation, and that outdated entries are not kept. Generations
// that are far apart share slots.
func TestRecent(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 36, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	source := &Source{Node: &fleetsource.Node{Machine: m, Managing: true, Complete: true, Policy: node.Policy{StaticCPU: true}}}
	rapid.Check(t, func(t *rapid.T) {
		c := New(fleet.NewRanking(fleet.LeastStranded, nil), World{
			Pods: func(string) []*v1.Pod { return nil }, AgentReady: func([]*v1.Pod) bool { return true },
			Exists: func(_, _, _ string) bool { return true }, Report: func(_, _ string, err error) { t.Error(err) },
		})
		generations, newest := map[string]int64{}, int64(0)
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 4).Draw(t, "node"))
			switch rapid.IntRange(0, 5).Draw(t, "action") {
			case 0: // Another change in the scheduler's cache. Up to 2^16 changes may have been made.
				newest += rapid.SampledFrom([]int64{1, 2, int64(len(c.recent))}).Draw(t, "changes")
				generations[name] = newest
			case 1:
				again := *source
				again.Here.Policy = fmt.Sprint(i)
				c.Update(name, &again)
			case 2:
				c.Update(name, nil)
			case 3:
				asked := fleet.Pod{Pod: request.Pod{Identity: request.Identity{UID: fmt.Sprint(i)}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 1}}}}}
				if _, err := c.Reserve(name, asked); err != nil {
					t.Fatal(err)
				}
			default:
			}
			for _, name := range slices.Sorted(maps.Keys(generations)) {
				checkRecent(t, c, name, generations[name])
			}
		}
	})
}

func checkRecent(t *rapid.T, c *Cluster, name string, generation int64) {
	got := c.At(name, generation, func() (allocatable, used fleet.Amounts) { return fleet.Amounts{Milli: generation}, fleet.Amounts{} })
	m, known := (*c.members.Load())[name]
	switch {
	case !known && got != nil:
		t.Fatalf("node %s has no objects and is found", name)
	case !known:
	case got != m.at.Load():
		t.Fatalf("node %s at %d: found %p, by name %p", name, generation, got, m.at.Load())
	case got.View.Allocatable.Milli != generation:
		t.Fatalf("node %s at %d has the amounts of %d", name, generation, got.View.Allocatable.Milli)
	}
	kept := 0
	for i := range c.recent {
		if at := c.recent[i].Load(); at != nil {
			if kept++; at.replaced.Load() {
				t.Fatalf("slot %d has what is not known any more", i)
			}
		}
	}
	if nodes := len(*c.members.Load()); kept > nodes {
		t.Fatalf("%d slots of %d nodes are in use", kept, nodes)
	}
}
