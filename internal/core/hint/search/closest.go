package search

import (
	"math/bits"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// nearest searches for the closest answer. It is a branch and bound over the number of NUMA nodes
// of each class to keep.
type nearest struct {
	search    *Search
	distances Distances
	size      int
	// best is the mask to beat: the one with the smallest sum of distances and, of these, the
	// smallest number.
	best    mask.Mask
	bestSum int64

	// out has the NUMA nodes that no answer has, must those that every answer has.
	out, must mask.Mask
	classes   []class
	// classOf is the class of each NUMA node that is not in out. ways is the distance between NUMA
	// nodes of two classes, in both directions together. near lists, for each class, all classes by
	// rising distance.
	classOf [mask.MaxNode + 1]uint8
	ways    []int64
	near    []uint8

	// The state of the counts decided so far: sum is their sum of distances, left is the number of
	// NUMA nodes still to choose, and undecided is a bit mask of the classes without a count.
	left      int
	sum       int64
	undecided uint64

	// paying lists the NUMA nodes that the relaxation can either keep or let pay, by falling pay.
	// pays is what each of them pays, and worth is the amount that is left for them to pay.
	paying []uint8
	pays   [mask.MaxNode + 1]int64
	worth  int64

	// Reused memory: the quotas of the last query; by class, the counts that affordable has not
	// used up; and the undecided classes, sorted by what one of their NUMA nodes adds.
	quotas  []quota
	room    []int
	byTwice []uint8
}

// Closest returns the mask of size NUMA nodes that answers the problem with the smallest sum of
// distances. Of equal masks, it returns the one with the smallest number. beat is 0 or a mask of
// this size, which Closest returns unless an answer is better. If the budget ends during the
// search, the result may not be the closest mask.
func (s *Search) Closest(size int, d Distances, beat mask.Mask) mask.Mask {
	found, ok := s.Any(size)
	if !ok {
		return beat
	}
	n := &s.nearest
	n.search, n.distances, n.size, n.best, n.bestSum = s, d, size, beat, 0
	if beat != 0 {
		n.bestSum = d.Sum(beat)
	}
	n.offer(found, d.Sum(found))
	n.weigh()
	n.classify(s.Problem.nodes &^ n.out)
	n.left, n.sum, n.undecided = size, 0, 1<<len(n.classes)-1
	n.choose()
	return n.best
}

// offer makes m the best mask if it is better. sum is the sum of its distances.
func (n *nearest) offer(m mask.Mask, sum int64) {
	if n.best == 0 || sum < n.bestSum || sum == n.bestSum && m < n.best {
		n.best, n.bestSum = m, sum
	}
}

// weigh uses the relaxation, at the prices that the search for any answer has left, to find what
// NUMA nodes pay and what there is to spare. From that, it finds NUMA nodes that no answer has:
// keeping one of them means dropping one that pays more, and what is spare does not cover the
// difference. It finds the NUMA nodes that every answer has in the same way. Integer programming
// calls this reduced cost fixing.
func (n *nearest) weigh() {
	s := n.search
	n.out, n.must = 0, s.Problem.pinned
	s.begin(query{size: n.size})
	n.worth = s.worth()
	paying, _, _, _ := s.offers()
	n.paying = append(n.paying[:0], s.order[:paying]...)
	n.pays = s.pays
	left := s.left - (s.chosen &^ s.kept).Len()
	if left <= 0 || left >= paying {
		return
	}
	spare := n.worth
	for _, x := range n.paying[left:] {
		spare -= n.pays[x]
	}
	leastKept, mostDropped := n.pays[n.paying[left-1]], n.pays[n.paying[left]]
	for i, x := range n.paying {
		switch pays := n.pays[x]; {
		case i < left && pays-mostDropped > spare:
			n.must = n.must.With(int(x))
		case i >= left && leastKept-pays > spare:
			n.out = n.out.With(int(x))
		}
	}
}

// choose decides the count of the class whose next NUMA node adds least, and tries high counts
// first.
func (n *nearest) choose() {
	// One additional step for every 4 classes keeps a step about as long as one of relax.
	if !n.search.Spend(1 + len(n.classes)/4) {
		return
	}
	undecided := n.undecided
	if n.promising() && n.affordable() {
		if n.left == 0 {
			// The smallest mask with the decided counts.
			n.quotas = n.quotas[:0]
			for i := range n.classes {
				n.quotas = append(n.quotas, quota{n.classes[i].nodes, n.classes[i].count})
			}
			if m := n.search.lowest(query{size: n.size, drop: n.out, quotas: n.quotas}); m != 0 {
				n.offer(m, n.sum)
			}
		} else {
			n.split()
		}
	}
	n.undecided = undecided
}

// split tries the counts of the class to decide next.
func (n *nearest) split() {
	next, room := -1, 0
	for rest := n.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &n.classes[i]
		room += c.size
		if next < 0 || c.self+c.toDecided < n.classes[next].self+n.classes[next].toDecided {
			next = i
		}
	}
	c := &n.classes[next]
	room -= c.size
	n.undecided &^= 1 << next
	for k := min(c.size, n.left); k >= max(c.least, n.left-room) && !n.search.Over(); k-- {
		n.count(next, k, 1)
		n.choose()
		n.count(next, k, -1)
	}
	c.count = 0
}

// count adds k NUMA nodes of class i to the choice. If sign is -1, it removes them.
func (n *nearest) count(i, k int, sign int64) {
	c := &n.classes[i]
	q, nodes := len(n.classes), int64(k)
	c.count = k
	n.left -= k * int(sign)
	n.sum += sign * (nodes*(c.self+c.toDecided) + nodes*(nodes-1)/2*n.ways[i*q+i])
	for j := range n.classes {
		if j != i {
			n.classes[j].toDecided += sign * nodes * n.ways[j*q+i]
		}
	}
}

// promising reports whether the counts so far may still lead to a better mask. It also excludes
// classes of which no better mask has a NUMA node, because with one the bound would be too high.
func (n *nearest) promising() bool {
	for {
		twice, highest, ok := n.bound()
		if !ok || twice > 2*n.bestSum {
			return false
		}
		// Sums are whole numbers, so a bound above 2*bestSum-2 leaves only masks with an equal sum.
		// These are better only if they are smaller as numbers.
		if twice >= 2*n.bestSum-1 && n.lowestMask() >= n.best {
			return false
		}
		before := n.undecided
		for rest := before; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if twice-highest+n.classes[i].twice > 2*n.bestSum {
				n.undecided &^= 1 << i
			}
		}
		if n.undecided == before {
			return true
		}
	}
}

// bound returns twice a lower bound for the sum of distances of all masks with the decided counts.
// It returns false if there are not enough NUMA nodes left. highest is the most that one NUMA node
// adds to the bound.
//
// A further NUMA node adds its distance to itself, its distances to the decided NUMA nodes, and
// half of its distances to the left-1 nearest undecided ones. Those count the other half. Twice the
// bound is therefore a whole number.
func (n *nearest) bound() (twice, highest int64, ok bool) {
	q := len(n.classes)
	n.byTwice = n.byTwice[:0]
	for rest := n.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &n.classes[i]
		c.twice = 2 * (c.self + c.toDecided)
		need := n.left - 1
		for _, j := range n.near[i*q : i*q+q] {
			if need <= 0 {
				break
			}
			if n.undecided>>j&1 == 0 {
				continue
			}
			k := n.classes[j].size
			if int(j) == i {
				k--
			}
			k = min(k, need)
			need -= k
			c.twice += int64(k) * n.ways[i*q+int(j)]
		}
		at := len(n.byTwice)
		n.byTwice = append(n.byTwice, 0)
		for ; at > 0 && n.classes[n.byTwice[at-1]].twice > c.twice; at-- {
			n.byTwice[at] = n.byTwice[at-1]
		}
		n.byTwice[at] = uint8(i)
	}
	left := n.left
	twice = 2 * n.sum
	for _, i := range n.byTwice {
		k := min(n.classes[i].size, left)
		if k == 0 {
			break
		}
		left -= k
		highest = n.classes[i].twice
		twice += int64(k) * highest
	}
	return twice, highest, left == 0
}

// lowestMask returns the smallest number that a mask with the decided counts can have.
func (n *nearest) lowestMask() mask.Mask {
	var low, rest mask.Mask
	for i := range n.classes {
		if c := &n.classes[i]; n.undecided>>i&1 == 1 {
			rest |= c.nodes
		} else {
			low |= c.nodes.First(c.count)
		}
	}
	return low | rest.First(n.left)
}

// affordable reports whether the relaxation allows the decided counts. A decided class keeps those
// of its NUMA nodes that pay most. The undecided classes together keep those of their NUMA nodes
// that pay most. All other NUMA nodes pay. A decided class must use up its count; if it could keep
// fewer, the test would pass tens of thousands of counts that have no answer.
func (n *nearest) affordable() bool {
	n.room = n.room[:0]
	left := n.left
	for i := range n.classes {
		c := &n.classes[i]
		n.room = append(n.room, c.count-c.pinned)
		if n.undecided>>i&1 == 1 {
			left -= c.pinned
		}
	}
	var paid int64
	for _, x := range n.paying {
		room := &left
		switch class := n.classOf[x]; {
		case n.out.Has(int(x)):
			paid = Add(paid, n.pays[x])
			continue
		case n.undecided>>class&1 == 0:
			room = &n.room[class]
		}
		if *room > 0 {
			*room--
		} else {
			paid = Add(paid, n.pays[x])
		}
	}
	return paid <= n.worth
}
