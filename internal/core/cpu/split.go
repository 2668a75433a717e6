package cpu

import (
	"cmp"
	"slices"
	"sort"
)

// split is a question of section 6 of docs/rules/cpu.md for k NUMA nodes: which k of them (X) give
// an even part each, and which NUMA nodes of X (Z) give the remainder, so that the remaining free
// CPUs are balanced best over all NUMA nodes?
//
// The rules define the answer by a search. It goes through all X in lexicographic order and, for
// each X, through all Z, largest first. It keeps strict improvements of the standard deviation,
// rounded to 3 decimals. In the worst case that is 2^64 subsets. split finds the same answer in
// polynomial time:
//
//   - The sum of the free CPUs is the same for all choices. So the deviation grows with the sum of
//     squares and falls as the gain over taking nothing grows. A NUMA node with f free CPUs that
//     gives x CPUs has the gain f² − (f−x)² = x(2f−x). Gains are additive.
//   - The remainder is taken in cycles over Z and ends at a level. Every NUMA node of Z has then
//     given level groups, or all its groups if it has fewer. Of those with more groups, the first
//     ones in the order have given one extra group. So for a given level, the choices at a NUMA
//     node depend on the earlier ones only through three values: the number of NUMA nodes still to
//     pick, the number of groups still to give, and whether the extra groups have ended. That is a
//     table.
//   - Rounding makes different deviations equal, and the first of equal ones wins. The rounded
//     deviation never falls as the sum of squares grows. So a subset is equal to the best one if
//     its gain is at least a certain value, and the table yields the first such subset index by
//     index.
//
// A Z whose NUMA nodes cannot give the remainder in whole groups does not count. If X can
// give its part in whole groups at all, Z = X is such a choice.
type split struct {
	free  []int // free CPUs by index in the order of NUMA nodes
	group int   // number of CPUs taken together
	k     int
	even  int // CPUs that each NUMA node of X gives before the remainder (R-CPU-52)
	rest  int // number of groups in the remainder, always less than k
}

// best returns the shares of X in the order of NUMA nodes, or nil if no k NUMA nodes have enough.
func (s *split) best() []share {
	largest := s.largest()
	if largest == nil {
		return nil
	}
	gains := s.bounds(largest)
	t := newTable(s.nodes(), s.k, s.k, s.rest)
	top := int64(none)
	for level, bound := range gains {
		if bound > top {
			t.fill(s, level)
			gains[level] = t.at(0, s.k, s.rest, 0)
			top = max(top, gains[level])
		}
	}
	enough := s.sameScore(top)
	var levels, x []int
	for level, gain := range gains {
		if gain < enough {
			continue
		}
		levels = append(levels, level)
		if len(gains) > 1 { // with one level, the table is still filled for it
			t.fill(s, level)
		}
		if found := t.first(s.k, enough); found != nil && (x == nil || slices.Compare(found, x) < 0) {
			x = found
		}
	}
	return s.shares(x, s.remainder(x, enough, levels))
}

// spare returns the number of groups that a NUMA node can give to the remainder, or -1 if it cannot
// give the even part.
func (s *split) spare(node int) int {
	if s.free[node] < s.even {
		return -1
	}
	return (s.free[node] - s.even) / s.group
}

// gain returns by how much the sum of squares of the free CPUs falls if a NUMA node gives its even
// part and some groups.
func (s *split) gain(node, groups int) int64 {
	x := int64(s.even + groups*s.group)
	return x * (2*int64(s.free[node]) - x)
}

// largest returns the k NUMA nodes with the most free CPUs, most first. It returns nil if they do
// not have enough CPUs, because then no other k NUMA nodes do.
func (s *split) largest() []int {
	nodes := make([]int, 0, len(s.free))
	for i := range s.free {
		if s.spare(i) >= 0 {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) < s.k {
		return nil
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(s.free[b], s.free[a]) })
	nodes = nodes[:s.k]
	spare := 0
	for _, i := range nodes {
		spare += s.spare(i)
	}
	if spare < s.rest {
		return nil
	}
	return nodes
}

// bounds returns, for each level that can be the best, an upper bound for the gain of every X and Z
// in which a NUMA node gives level+1 groups. Splits that end below a level are found at the lower
// level. The bound ignores the rule of cycles. Then the largest NUMA nodes are best, the largest
// one gives level+1 groups, and each other group comes from the NUMA node with the most CPUs left.
func (s *split) bounds(largest []int) []int64 {
	bounds := make([]int64, max(1, min(s.rest, s.spare(largest[0]))))
	given := make([]int, len(largest))
	for level := range bounds {
		clear(given)
		if level > 0 {
			given[0] = level + 1
		}
		for range s.rest - given[0] {
			most, at := -1, 0
			for i, node := range largest {
				if left := s.free[node] - given[i]*s.group; left > most && s.spare(node) > given[i] {
					most, at = left, i
				}
			}
			given[at]++
		}
		for i, node := range largest {
			bounds[level] += s.gain(node, given[i])
		}
	}
	return bounds
}

// remainder returns Z as indexes into X. Of the Z with enough gain, it returns the first of the
// largest ones. levels are the levels at which such a Z can exist.
func (s *split) remainder(x []int, enough int64, levels []int) []int {
	if s.rest == 0 {
		return nil
	}
	items := make([]item, len(x))
	most := 0
	for i, node := range x {
		items[i] = item{node: node, left: s.gain(node, 0), pick: s.spare(node) > 0}
		if items[i].pick {
			most++
		}
	}
	t := newTable(items, 1, most, s.rest)
	var z []int
	for _, level := range levels {
		t.fill(s, level)
		for size := most; size >= max(1, len(z)); size-- {
			found := t.first(size, enough)
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

// nodes returns the items for the choice of X. A NUMA node can be picked if it can give the even
// part.
func (s *split) nodes() []item {
	items := make([]item, len(s.free))
	for i := range items {
		items[i] = item{node: i, pick: s.spare(i) >= 0, idle: true}
	}
	return items
}

// shares takes the remainder in cycles over Z (R-CPU-58).
func (s *split) shares(x, z []int) []share {
	shares := make([]share, len(x))
	for i, node := range x {
		shares[i] = share{node: node, even: s.even, group: s.group}
	}
	for left := s.rest; left > 0; {
		for _, i := range z {
			if left > 0 && shares[i].extra < s.spare(x[i]) {
				shares[i].extra++
				left--
			}
		}
	}
	return shares
}

// sameScore returns the least gain with the same score as gain. The score is the population
// standard deviation of the free CPUs, with the mean and the result rounded to 3 decimals
// (R-CPU-56). Here it is computed in thousandths and whole numbers. Let L be the number of NUMA
// nodes, S the sum of their free CPUs, M the rounded mean and Q the sum of squares. Then L times
// the variance is V = 10⁶Q − 2000MS + LM². The score is √(V/L) rounded: the smallest s with
// (2s+1)²L > 4V.
func (s *split) sameScore(gain int64) int64 {
	l := int64(len(s.free))
	sum := -int64(s.k*s.even + s.rest*s.group)
	squares := int64(0)
	for _, f := range s.free {
		sum += int64(f)
		squares += int64(f) * int64(f)
	}
	mean := (2000*sum + l) / (2 * l)
	offset := l*mean*mean - 2000*mean*sum
	v := 1_000_000*(squares-gain) + offset
	// No deviation exceeds the largest number of free CPUs, and each CPU is 1,000 thousandths.
	score := sort.Search(1000*slices.Max(s.free)+1, func(at int) bool {
		odd := 2*int64(at) + 1
		return odd*odd*l > 4*v
	})
	odd := 2*int64(score) + 1
	return squares - ((odd*odd*l-1)/4-offset)/1_000_000
}
