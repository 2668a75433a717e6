package packing

import (
	"maps"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// draw draws a problem with few pods. Some pods are without parts, and some have several.
func draw(t *rapid.T) (nodes []Node, items []Item) {
	resources := rapid.IntRange(1, 3).Draw(t, "resources")
	size := func(name string, low, high int64) (s Size) {
		for range resources {
			s = append(s, rapid.Int64Range(low, high).Draw(t, name))
		}
		return s
	}
	for range rapid.IntRange(1, 2).Draw(t, "kinds") {
		n := Node{Price: float64(rapid.IntRange(1, 5).Draw(t, "price")), Whole: make(Size, resources)}
		for range rapid.IntRange(1, 3).Draw(t, "cells") {
			n.Cells = append(n.Cells, size("cell", 1, 9))
			for r, x := range n.Cells[len(n.Cells)-1] {
				n.Whole[r] += x
			}
		}
		nodes = append(nodes, n)
	}
	apart := rapid.Bool().Draw(t, "apart")
	for range rapid.IntRange(1, 4).Draw(t, "items") {
		item := Item{Count: rapid.Int64Range(1, 3).Draw(t, "count"), PerNode: rapid.Int64Range(0, 2).Draw(t, "per node")}
		need := Need{Whole: make(Size, resources)}
		for range rapid.IntRange(0, 2).Draw(t, "parts") {
			need.Parts = append(need.Parts, size("part", 0, 6))
			for r, x := range need.Parts[len(need.Parts)-1] {
				need.Whole[r] += x
			}
		}
		if len(need.Parts) == 0 {
			need.Whole = size("whole", 0, 12)
			if apart {
				need.Apart = rapid.IntRange(2, 3).Draw(t, "group")
			}
		}
		item.On = append(item.On, need)
		if len(nodes) > 1 {
			need.Never = rapid.Bool().Draw(t, "never")
			item.On = append(item.On, need)
		}
		if slices.ContainsFunc(need.Whole, func(x int64) bool { return x > 0 }) && holds(&nodes[0], []*Need{&item.On[0]}) {
			items = append(items, item)
		}
	}
	return nodes, items
}

// holds reports whether pods fit on a node: it tries every place of every part.
func holds(n *Node, pods []*Need) bool {
	whole := slices.Clone(n.Whole)
	var parts []Size
	for _, p := range pods {
		if p.Never || !take(whole, p.Whole) {
			return false
		}
		parts = append(parts, p.Parts...)
	}
	var groups []*Need
	for _, p := range pods {
		if p.Apart > 0 {
			groups = append(groups, p)
		}
	}
	cells := make([]Size, len(n.Cells))
	for k := range cells {
		cells[k] = slices.Clone(n.Cells[k])
	}
	return group(cells, groups, map[int]Size{}, 0, parts)
}

// group tries every group of two or more cells for each of the pods that have one. open has what is
// left of the groups so far, and used all their cells.
func group(cells []Size, pods []*Need, open map[int]Size, used int, parts []Size) bool {
	if len(pods) == 0 {
		left := make([]Size, len(cells))
		for k := range cells {
			left[k] = slices.Clone(cells[k])
			if used>>k&1 == 1 {
				left[k] = make(Size, len(cells[k]))
			}
		}
		return place(left, parts)
	}
	for set := range 1 << len(cells) {
		room, same := open[set]
		if bits.OnesCount(uint(set)) != pods[0].Apart || used&set != 0 && !same {
			continue
		}
		next := maps.Clone(open)
		if next[set] = slices.Clone(room); !same {
			next[set] = make(Size, len(cells[0]))
			for k := range cells {
				for r, x := range cells[k] {
					next[set][r] += int64(set>>k&1) * x
				}
			}
		}
		if take(next[set], pods[0].Whole) && group(cells, pods[1:], next, used|set, parts) {
			return true
		}
	}
	return false
}

func take(from, size Size) bool {
	for r, x := range size {
		if from[r] < x {
			return false
		}
		from[r] -= x
	}
	return true
}

func place(cells, parts []Size) bool {
	if len(parts) == 0 {
		return true
	}
	for k := range cells {
		before := slices.Clone(cells[k])
		if take(cells[k], parts[0]) && place(cells, parts[1:]) {
			return true
		}
		cells[k] = before
	}
	return false
}

// cheapest returns the lowest price of nodes that hold all pods: it tries every division.
func cheapest(nodes []Node, pods []Item, limit float64) float64 {
	var all []*Item
	for i := range pods {
		for range pods[i].Count {
			all = append(all, &pods[i])
		}
	}
	type used struct {
		kind int
		pods []*Need
	}
	best := limit
	var try func(at int, open []used, price float64)
	try = func(at int, open []used, price float64) {
		if price >= best {
			return
		}
		if at == len(all) {
			best = price
			return
		}
		for u := range open {
			before := open[u].pods
			need, same := &all[at].On[open[u].kind], int64(0)
			for _, other := range before {
				if other == need {
					same++
				}
			}
			if most := all[at].PerNode; most > 0 && same >= most {
				continue
			}
			open[u].pods = append(slices.Clip(before), need)
			if holds(&nodes[open[u].kind], open[u].pods) {
				try(at+1, open, price)
			}
			open[u].pods = before
		}
		for k := range nodes {
			if one := []*Need{&all[at].On[k]}; holds(&nodes[k], one) {
				try(at+1, append(slices.Clip(open), used{k, one}), price+nodes[k].Price)
			}
		}
	}
	try(0, nil, 0)
	return best
}

// TestBoundIsABound compares the bound with the lowest price of all divisions of the pods.
func TestBoundIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, items := draw(t)
		if len(items) == 0 {
			t.Skip("no pods")
		}
		count := int64(0)
		for i := range items {
			if count += items[i].Count; count > 6 {
				items[i].Count -= min(items[i].Count, count-6)
			}
		}
		best := cheapest(nodes, items, 1e9)
		most := rapid.IntRange(1, 5).Draw(t, "groups") // With 5, no items are grouped.
		r := boundOf(nodes, items, rapid.SampledFrom([]int64{Budget / 1000, 100}).Draw(t, "budget"), most, func() bool { return false })
		if r.Price > best {
			t.Fatalf("the bound is %v, and %v is enough", r.Price, best)
		}
		if len(nodes) == 1 && float64(r.Nodes(items))*nodes[0].Price > best {
			t.Fatalf("the bound is %d nodes, and %v is enough", r.Nodes(items), best)
		}
	})
}

// TestBound compares bounds with known ones.
func TestBound(t *testing.T) {
	forever := func() bool { return false }
	one := func(cpus ...int64) (needs []Need) {
		for _, x := range cpus {
			needs = append(needs, Need{Parts: []Size{{x}}, Whole: Size{x}})
		}
		return needs
	}
	node := Node{Price: 1, Cells: []Size{{94}, {96}}, Whole: Size{190}}
	for _, c := range []struct {
		name     string
		n48, n64 int64
		expected int
	}{
		{"a node takes three of 48", 3000, 0, 1000},
		{"a node takes two of 64, or one and two of 48", 520, 260, 260},
		{"both", 1000, 260, 420},
		{"few", 1, 1, 1},
	} {
		sizes := one(48, 64)
		items := []Item{{Count: c.n48, On: sizes[:1]}, {Count: c.n64, On: sizes[1:]}}
		r := Bound([]Node{node}, items, Budget, forever)
		if n := r.Nodes(items); n != c.expected {
			t.Errorf("%s: the bound is %d, expected %d", c.name, n, c.expected)
		}
	}
	items := []Item{{Count: 100, On: append(one(48), one(48)...)}}
	two := []Node{node, {Price: 2.5, Cells: []Size{{96}, {96}}, Whole: Size{192}}}
	if r := Bound(two, items, Budget, forever); r.Price < 33.33 || r.Price > 33.34 || r.Mix[0] < 33.3 || r.Mix[1] > 0 {
		t.Errorf("%+v, expected the price 33.3 with nodes of the first kind", r)
	}
}

// TestLimits compares bounds for pods of which a node has at most a few.
func TestLimits(t *testing.T) {
	need := func(x int64) []Need { return []Need{{Parts: []Size{{x}}, Whole: Size{x}}} }
	node := Node{Price: 1, Cells: []Size{{48}, {48}}, Whole: Size{96}}
	for _, c := range []struct {
		name     string
		items    []Item
		expected int
	}{
		{"alone", []Item{{Count: 101, PerNode: 2, On: need(1)}}, 51},
		{"a limit that the size implies", []Item{{Count: 100, PerNode: 9, On: need(48)}}, 50},
		{"each is beside others", []Item{{Count: 100, PerNode: 1, On: need(4)}, {Count: 90, PerNode: 1, On: need(8)}}, 100},
		{"none is beside two large ones", []Item{{Count: 100, PerNode: 1, On: need(4)}, {Count: 200, On: need(48)}}, 150},
		{"what is left of a node without a limit", []Item{{Count: 100, PerNode: 1, On: need(24)}, {Count: 300, On: need(24)}}, 100},
		{"equal pods of two workloads", []Item{{Count: 30, PerNode: 1, On: need(24)}, {Count: 60, PerNode: 1, On: need(24)}}, 60},
	} {
		r := Bound([]Node{node}, c.items, Budget, func() bool { return false })
		if n := r.Nodes(c.items); n != c.expected {
			t.Errorf("%s: the bound is %d, expected %d", c.name, n, c.expected)
		}
	}
}

// TestDust checks that pods that are smaller than a unit of the grid do not make the bound too
// large: all fit on the nodes of the large ones.
func TestDust(t *testing.T) {
	node := Node{Price: 1, Cells: []Size{{1 << 20, 1 << 20}, {1 << 20, 1 << 20}}, Whole: Size{2 << 20, 2 << 20}}
	need := func(size ...int64) []Need { return []Need{{Parts: []Size{size}, Whole: size}} }
	items := []Item{{Count: 100_000, On: need(3, 5)}, {Count: 10, On: need(7001, 524_289)}, {Count: 900, On: need(0, 0)}}
	for _, limit := range []int64{0, 300_000} {
		items[0].PerNode = limit
		r := Bound([]Node{node}, items, Budget, func() bool { return false })
		if n := r.Nodes(items); n != 5 {
			t.Errorf("with the limit %d, the bound is %d nodes, expected 5", limit, n)
		}
	}
	items[0].PerNode = 10_000
	r := Bound([]Node{node}, items, Budget, func() bool { return false })
	if n := r.Nodes(items); n != 10 {
		t.Errorf("the bound is %d nodes for 100,000 pods of which a node has 10,000, expected 10", n)
	}
}

// TestTable compares a table with all choices of its entries.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable([]int{rapid.IntRange(1, 5).Draw(t, "levels"), rapid.IntRange(1, 5).Draw(t, "levels")})
		for range 2 { // Tables are filled many times.
			entries := make([]entry, rapid.IntRange(0, 4).Draw(t, "entries"))
			for i := range entries {
				size := []int{rapid.IntRange(0, 3).Draw(t, "size"), rapid.IntRange(0, 3).Draw(t, "size")}
				entries[i] = entry{size: size, weight: rapid.Int64Range(0, 9).Draw(t, "weight"), most: rapid.Int64Range(0, 3).Draw(t, "most")}
				if !entries[i].sized() {
					entries[i].most++
				}
			}
			table.fill(entries)
			for state, weight := range table.weights {
				room := []int{state / table.strides[0], state % table.strides[0]}
				if best := heaviest(entries, room); best != weight {
					t.Fatalf("%v in %v: the weight is %d, expected %d", entries, room, weight, best)
				}
				used := make([]int64, len(entries))
				table.packed(entries, state, func(e int) {
					weight -= entries[e].weight
					room[0], room[1] = room[0]-entries[e].size[0], room[1]-entries[e].size[1]
					used[e]++
				})
				for e, n := range used {
					if most := entries[e].most; most > 0 && n > most {
						t.Fatalf("%v: entry %d is used %d times", entries, e, n)
					}
				}
				if weight != 0 || min(room[0], room[1]) < 0 {
					t.Fatalf("%v: the weight of what is packed differs by %d, and %v is left", entries, weight, room)
				}
			}
		}
	})
}

// heaviest tries every choice of entries.
func heaviest(entries []entry, room []int) (best int64) {
	if len(entries) == 0 {
		return 0
	}
	e, left := entries[0], slices.Clone(room)
	for n := int64(0); min(left[0], left[1]) >= 0 && (e.most == 0 || n <= e.most); n++ {
		best = max(best, n*e.weight+heaviest(entries[1:], left))
		left[0], left[1] = left[0]-e.size[0], left[1]-e.size[1]
	}
	return best
}

// TestWorth checks what room is worth: what fits into it.
func TestWorth(t *testing.T) {
	nodes := []Node{{Price: 1, Cells: []Size{{96, 4}}, Whole: Size{96, 4}}}
	need := func(cpus, gpus int64) []Need {
		return []Need{{Parts: []Size{{cpus, gpus}}, Whole: Size{cpus, gpus}}}
	}
	items := []Item{{Count: 100, On: need(48, 1)}, {Count: 50, On: need(32, 0)}}
	w := WorthOf(nodes, items, 0, Bound(nodes, items, Budget, func() bool { return false }))
	if all := w.Of(Size{96, 4}); all < One*999/1000 || all > One*1001/1000 {
		t.Errorf("all is worth %d, expected about %d", all, One)
	}
	if some, none := w.Of(Size{48, 1}), w.Of(Size{31, 4}); some < One*499/1000 || none != 0 || w.Of(Size{48, 0}) >= some {
		t.Errorf("half is worth %d, and too little %d", some, none)
	}
}
