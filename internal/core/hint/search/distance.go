package search

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Distances has the distance between two NUMA nodes, indexed by both ids. Missing pairs count as 0.
type Distances [][]int

func (d Distances) between(a, b int) int64 {
	if a >= len(d) || b >= len(d[a]) {
		return 0
	}
	return int64(d[a][b])
}

// bothWays returns the sum of the distances from a to b and from b to a.
func (d Distances) bothWays(a, b int) int64 { return d.between(a, b) + d.between(b, a) }

// alike reports whether x and y have the same distance to themselves and the same distances, in
// both directions together, to all other NUMA nodes of nodes.
func (d Distances) alike(x, y int, nodes mask.Mask) bool {
	if d.between(x, x) != d.between(y, y) {
		return false
	}
	for rest := nodes.Without(x).Without(y); rest != 0; rest &= rest - 1 {
		if z := rest.Lowest(); d.bothWays(x, z) != d.bothWays(y, z) {
			return false
		}
	}
	return true
}

// Sum returns the sum of the distances between all ordered pairs of NUMA nodes of m, including each
// NUMA node with itself. Of masks of one size, the one with the smaller sum has the smaller average
// (R-HINT-54).
func (d Distances) Sum(m mask.Mask) int64 {
	var sum int64
	for a := range m.All() {
		for b := range m.All() {
			sum += d.between(a, b)
		}
	}
	return sum
}

// class is a set of NUMA nodes that are interchangeable with respect to distances. They have the
// same distance to themselves and, in both directions together, to any other NUMA node. The sum of
// distances of a mask depends only on the number of NUMA nodes that it has of each class.
type class struct {
	nodes mask.Mask
	size  int
	// self is the distance of a NUMA node to itself.
	self int64
	// least is the number of NUMA nodes of the class that every answer has. pinned is the number of
	// these that are pinned.
	least, pinned int
	// count is the number of NUMA nodes to keep, once it is decided.
	count int
	// toDecided is what one more NUMA node adds by its distances to those of the other decided
	// classes. twice is the doubled estimate of all that it adds, which bound uses.
	toDecided, twice int64
}

// classify divides nodes into classes.
func (n *nearest) classify(nodes mask.Mask) {
	n.classes = n.classes[:0]
	for x := range nodes.All() {
		i := slices.IndexFunc(n.classes, func(c class) bool { return n.distances.alike(c.nodes.Lowest(), x, nodes) })
		if i < 0 {
			i = len(n.classes)
			n.classes = append(n.classes, class{self: n.distances.between(x, x)})
		}
		n.classOf[x] = uint8(i)
		n.classes[i].nodes = n.classes[i].nodes.With(x)
	}
	for i := range n.classes {
		c := &n.classes[i]
		c.size = c.nodes.Len()
		c.least = (c.nodes & n.must).Len()
		c.pinned = (c.nodes & n.search.Problem.pinned).Len()
	}
	// Compute the distances between classes, in both directions together, and sort all classes by
	// distance for each class. Within a class, it is the distance between any two of its NUMA
	// nodes.
	q := len(n.classes)
	n.ways, n.near = n.ways[:0], n.near[:0]
	for a := range n.classes {
		for b := range n.classes {
			n.ways = append(n.ways, n.distances.bothWays(n.classes[a].nodes.Lowest(), n.classes[b].nodes.Highest()))
			n.near = append(n.near, uint8(b))
		}
		ways := n.ways[a*q:]
		slices.SortStableFunc(n.near[a*q:], func(b, c uint8) int { return cmp.Compare(ways[b], ways[c]) })
	}
}
