package kueue

import (
	"fmt"
	"slices"
	"testing"
)

// TestDomainNodes checks that the pods of a domain are asked for on the nodes of the domain alone.
// An answer of all 5,000 nodes for each of 2,500 racks takes 1.5 GiB and 10 s.
func TestDomainNodes(t *testing.T) {
	w := newWorld(t, 6)
	w.add("racked", set{name: "main", count: 2, cpus: 1, rack: "r2"})
	world := w.world()
	g := newGround(w.ranking)
	if err := g.refresh(&world); err != nil {
		t.Fatal(err)
	}
	for rack, want := range map[string]string{"r2": "[n3 n4]", "gone": "[]"} {
		l := Read(w.workloads["racked"])
		l.PodSets[0].Domains[0].Values[0] = rack
		all, err := g.parts(l, &world)
		if err != nil || len(all.groups) != 1 {
			t.Fatal(all, err)
		}
		only := all.groups[0].Only
		if slices.Sort(only); only == nil || fmt.Sprint(only) != want {
			t.Errorf("rack %s: %v, want %s", rack, only, want)
		}
	}
}
