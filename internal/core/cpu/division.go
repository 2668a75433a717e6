package cpu

import (
	"cmp"
	"math"
	"slices"
)

// division is the question of section 6 for one number k of NUMA nodes: which k of them
// (X) give an even part each, and which of these (Z) give the remainder, so that what is
// left free on all of them is balanced best.
//
// The rules say it as a search: all X in lexicographic order, for each all Z, largest
// first, keeping strict improvements of the standard deviation, rounded to 3 decimals.
// That is 2^64 subsets at worst. The same answer is found here in polynomial time:
//
//   - The sum of what is left is the same for all, so the deviation grows with the sum of
//     squares of what is left, or falls with the gain against taking nothing: a node with
//     f free CPUs that gives x has the gain f² − (f−x)² = x(2f−x). Gains add up.
//   - Handing out the remainder in cycles over Z ends at a level: every node of Z has
//     given level groups, or all it had where that is less, and the first ones in order
//     of those that had more have given one more. So for a given level the choices at a
//     node depend on the nodes before it by no more than the number of nodes and groups
//     still to be found, and whether the "first ones" have ended. That is a table.
//   - Rounding makes deviations equal that are not, and the first of the equal wins. As
//     the rounded deviation never falls when the sum of squares grows, being equal to the
//     best is having at least a certain gain, and the first subset with it is read off the
//     table position by position.
//
// A Z whose NUMA nodes cannot give the remainder in whole groups does not take part.
// Where X can give its part in whole groups at all, Z = X is never of that sort.
type division struct {
	free  []int // free CPUs by position in the node order
	group int   // CPUs handed out together
	k     int
	even  int // CPUs that each node of X gives before the remainder (R-CPU-52)
	rest  int // groups in the remainder, always fewer than k
}

func newDivision(free []int, group, groups, k int) *division {
	return &division{free: free, group: group, k: k, even: groups / k * group, rest: groups % k}
}

// best returns the shares of X in node order, or nil where no k nodes can give what is
// wanted.
func (d *division) best() []share {
	largest := d.largest()
	if largest == nil {
		return nil
	}
	gains := d.bounds(largest)
	b := newBoard(d.nodes(), d.k, d.k, d.rest)
	top := int64(none)
	for level, bound := range gains {
		if bound > top {
			b.fill(d, level)
			gains[level] = b.at(0, d.k, d.rest, 0)
			top = max(top, gains[level])
		}
	}
	enough := d.sameScore(top)
	var levels, x []int
	for level, gain := range gains {
		if gain < enough {
			continue
		}
		levels = append(levels, level)
		if len(gains) > 1 { // else it is still filled
			b.fill(d, level)
		}
		if found := b.first(d.k, enough); found != nil && (x == nil || slices.Compare(found, x) < 0) {
			x = found
		}
	}
	return d.shares(x, d.remainder(x, enough, levels))
}

// spare is how many groups a node can give to the remainder, or -1 if it cannot give
// the even part.
func (d *division) spare(node int) int {
	if d.free[node] < d.even {
		return -1
	}
	return (d.free[node] - d.even) / d.group
}

// gain is by how much the sum of squares of what is left falls when a node gives its
// even part and some groups.
func (d *division) gain(node, groups int) int64 {
	x := int64(d.even + groups*d.group)
	return x * (2*int64(d.free[node]) - x)
}

// largest returns the k nodes with the most free CPUs, most first, or nil where even
// these cannot give what is wanted: then no others can.
func (d *division) largest() []int {
	nodes := make([]int, 0, len(d.free))
	for i := range d.free {
		if d.spare(i) >= 0 {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) < d.k {
		return nil
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(d.free[b], d.free[a]) })
	nodes = nodes[:d.k]
	spare := 0
	for _, i := range nodes {
		spare += d.spare(i)
	}
	if spare < d.rest {
		return nil
	}
	return nodes
}

// bounds returns, for each level that is worth a look, a gain which no X and Z with a
// node that gives level+1 groups exceed. What ends below a level is found there. Were
// the groups free to go anywhere, the largest nodes would be best, the largest of them
// giving most, and each group would best come from where most is left.
func (d *division) bounds(largest []int) []int64 {
	bounds := make([]int64, max(1, min(d.rest, d.spare(largest[0]))))
	given := make([]int, len(largest))
	for level := range bounds {
		clear(given)
		if level > 0 {
			given[0] = level + 1
		}
		for range d.rest - given[0] {
			d.giveOne(largest, given)
		}
		for i, node := range largest {
			bounds[level] += d.gain(node, given[i])
		}
	}
	return bounds
}

func (d *division) giveOne(nodes, given []int) {
	most, at := -1, 0
	for i, node := range nodes {
		if left := d.free[node] - given[i]*d.group; left > most && d.spare(node) > given[i] {
			most, at = left, i
		}
	}
	given[at]++
}

// remainder returns Z as positions in X: of the largest ones with enough gain the first.
// levels are those at which there can be one.
func (d *division) remainder(x []int, enough int64, levels []int) []int {
	if d.rest == 0 {
		return nil
	}
	items := make([]item, len(x))
	most := 0
	for i, node := range x {
		items[i] = item{node: node, left: d.gain(node, 0), pick: d.spare(node) > 0}
		if items[i].pick {
			most++
		}
	}
	b := newBoard(items, 1, most, d.rest)
	var z []int
	for _, level := range levels {
		b.fill(d, level)
		for size := most; size >= max(1, len(z)); size-- {
			found := b.first(size, enough)
			if found == nil {
				continue
			}
			if len(found) > len(z) || slices.Compare(found, z) < 0 {
				z = found
			}
			break
		}
	}
	return z
}

// nodes are the items for the choice of X: any node that can give the even part.
func (d *division) nodes() []item {
	items := make([]item, len(d.free))
	for i := range items {
		items[i] = item{node: i, pick: d.spare(i) >= 0, idle: true}
	}
	return items
}

// shares hands out the remainder in cycles over Z (R-CPU-58).
func (d *division) shares(x, z []int) []share {
	shares := make([]share, len(x))
	for i, node := range x {
		shares[i] = share{node: node, even: d.even, group: d.group}
	}
	for left := d.rest; left > 0; {
		for _, i := range z {
			if left > 0 && shares[i].extra < d.spare(x[i]) {
				shares[i].extra++
				left--
			}
		}
	}
	return shares
}

// sameScore returns the least gain whose score is that of gain. The score is the
// population deviation of what is left, with the mean and the result rounded to 3
// decimals (R-CPU-56), here in thousandths and without floating point: with S the sum and
// M the rounded mean of what is left on L nodes, and Q the sum of squares, the variance
// times L is V = 10⁶Q − 2000MS + LM², and a score s is √(V/L) rounded.
func (d *division) sameScore(gain int64) int64 {
	l := int64(len(d.free))
	sum := -int64(d.k*d.even + d.rest*d.group)
	squares := int64(0)
	for _, f := range d.free {
		sum += int64(f)
		squares += int64(f) * int64(f)
	}
	mean := (2000*sum + l) / (2 * l)
	offset := l*mean*mean - 2000*mean*sum
	v := 1_000_000*(squares-gain) + offset
	score := int64(math.Sqrt(float64(v) / float64(l)))
	for (2*score+1)*(2*score+1)*l <= 4*v {
		score++
	}
	for score > 0 && (2*score-1)*(2*score-1)*l > 4*v {
		score--
	}
	most := ((2*score+1)*(2*score+1)*l - 1) / 4
	return squares - (most-offset)/1_000_000
}
