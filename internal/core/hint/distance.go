package hint

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// distance is from node a to b; 0 where the matrix does not say.
func distance(distances [][]int, a, b int) int64 {
	if a >= len(distances) || b >= len(distances[a]) {
		return 0
	}
	return int64(distances[a][b])
}

// spread is the sum of the distances between all ordered pairs of nodes, a node with
// itself included. Of masks with equal counts, the one with the smaller sum has the
// smaller average (R-HINT-54).
func spread(distances [][]int, m mask.Mask) int64 {
	var sum int64
	for a := range m.All() {
		for b := range m.All() {
			sum += distance(distances, a, b)
		}
	}
	return sum
}

// twins are nodes that are interchangeable as far as distances go: each is as far from
// itself, and, there and back, from any other node. The spread of a mask depends on the
// number of its nodes in each class of twins alone.
type twins struct {
	nodes mask.Mask
	size  int
	// self is a node's distance to itself.
	self int64
	// least is the number of nodes that must be kept, pinned how many of them the
	// relaxation does not know as undecided.
	least, pinned int
	// count is how many are kept once decided; lin what one node more adds by its distances
	// to nodes of other decided classes; value the bound's price of one node, doubled.
	count int
	lin   int64
	value int64
}

// classify groups the nodes that may be kept into twins.
func (d *nearness) classify() {
	nodes := d.search.problem.nodes &^ d.out
	d.classes = d.classes[:0]
nodes:
	for rest := nodes; rest != 0; rest &= rest - 1 {
		x := rest.Lowest()
		for i := range d.classes {
			if c := &d.classes[i]; d.twin(c.nodes.Lowest(), x, nodes) {
				c.nodes = c.nodes.With(x)
				c.size++
				d.at[x] = uint8(i)
				continue nodes
			}
		}
		d.at[x] = uint8(len(d.classes))
		d.classes = append(d.classes, twins{nodes: mask.Of(x), size: 1, self: distance(d.distances, x, x)})
	}
	for i := range d.classes {
		c := &d.classes[i]
		c.least = (c.nodes & d.must).Len()
		c.pinned = (c.nodes & d.search.problem.pinned).Len()
	}
	d.measure()
}

func (d *nearness) bothWays(x, y int) int64 {
	return distance(d.distances, x, y) + distance(d.distances, y, x)
}

func (d *nearness) twin(x, y int, nodes mask.Mask) bool {
	if distance(d.distances, x, x) != distance(d.distances, y, y) {
		return false
	}
	for rest := nodes.Without(x).Without(y); rest != 0; rest &= rest - 1 {
		if z := rest.Lowest(); d.bothWays(x, z) != d.bothWays(y, z) {
			return false
		}
	}
	return true
}

// measure fills in the ways between classes. Inside a class it is that between any two
// of its nodes.
func (d *nearness) measure() {
	q := len(d.classes)
	d.way, d.near = d.way[:0], d.near[:0]
	for a := range d.classes {
		for b := range d.classes {
			d.way = append(d.way, d.bothWays(d.classes[a].nodes.Lowest(), d.classes[b].nodes.Highest()))
			d.near = append(d.near, uint8(b))
		}
		ways := d.way[a*q:]
		slices.SortStableFunc(d.near[a*q:], func(b, c uint8) int { return cmp.Compare(ways[b], ways[c]) })
	}
}
