package packing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestGroups checks that in place of each pod there is one that takes no more on any kind of node.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, items := draw(t)
		most := rapid.IntRange(1, 5).Draw(t, "groups")
		groups, at := grouped(nodes, items, most)
		counts := make([]int64, len(groups))
		for i, k := range at {
			counts[k] += items[i].Count
			if limit := groups[k].PerNode; limit > 0 && limit != items[i].PerNode {
				t.Fatalf("item %d has the limit %d, and its group %d", i, items[i].PerNode, limit)
			}
			for kind := range nodes {
				of, is := &groups[k].On[kind], &items[i].On[kind]
				if of.Never != is.Never || of.Apart != is.Apart || len(of.Parts) != len(is.Parts) || !smaller(of.Whole, is.Whole) || !slices.EqualFunc(of.Parts, is.Parts, smaller) {
					t.Fatalf("item %d needs %+v, and its group %+v", i, *is, *of)
				}
			}
		}
		for k, g := range groups {
			if counts[k] != g.Count {
				t.Fatalf("group %d has %d pods, and its items %d", k, g.Count, counts[k])
			}
		}
	})
}

func smaller(a, b Size) bool { return fit(a, nil, b) }

// TestGroupsAreEnough compares the bounds of many kinds of pods with those that were found without
// groups: as good where the budget is enough for all kinds, and close where it is not.
func TestGroupsAreEnough(t *testing.T) {
	stop := func() bool { return false }
	for _, large := range []bool{false, true} {
		node, items := kinds(60, large)
		exact := boundOf([]Node{node}, items, Budget, 60, stop)
		if r := boundOf([]Node{node}, items, Budget, 20, stop); r.Grouped || r.Nodes(items) != exact.Nodes(items) {
			t.Errorf("large %v: the bound is %d nodes, and %d without groups: grouped %v", large, r.Nodes(items), exact.Nodes(items), r.Grouped)
		}
		p := program{nodes: []Node{node}, items: items, budget: Budget}
		p.tables = [][]*tables{{newTables(p.nodes, items, 0, fineStates, false)}}
		if r := p.solveGroups(20, func() bool { return p.budget < Budget*3/4 }); r.Price > exact.Optimal || r.Price < 0.97*exact.Price {
			t.Errorf("large %v: the bound of groups is %v nodes, and %v without groups", large, r.Price, exact.Price)
		}
	}
}
