package hint

import (
	"math"
	"math/bits"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// nearness is the search for the closest mask: a branch and bound over the number of
// nodes in each class. It works on the question in search.problem.
type nearness struct {
	search    *search
	distances [][]int
	// best is the mask to beat: the least spread, cost, and then the smallest number.
	best     mask.Mask
	bestCost int64

	// out are nodes that no answer has, must those that every answer has.
	out, must mask.Mask
	classes   []twins
	// at is the class of each node that is not out.
	at [mask.MaxNode + 1]uint8
	// way is the distance between nodes of two classes, there and back; near lists, for each
	// class, all classes by rising way.
	way  []int64
	near []uint8

	// The counts so far: cost is their spread, left nodes are still to choose.
	size, left int
	cost       int64
	undecided  uint64

	// paying are the nodes that the relaxation at the root lets pay for being dropped, by
	// falling price, and worth is what all slack is worth at these prices.
	paying []uint8
	pays   [mask.MaxNode + 1]float64
	worth  float64

	// stalled is set when a run went past limit, which the first one does after patience
	// steps.
	patience, limit int
	stalled         bool

	members     []mask.Mask
	most, taken []int
	byValue     []uint8
}

// patience is how many steps a search for the closest mask may take before it finds out
// which nodes no answer, and which every answer has: that costs up to two questions a
// node, and pays only where the first attempt does not end by itself.
const patience = 2_000

// closest considers the closest mask of this size that answers m.problem: the least
// spread, then the smallest number.
func (m *merger) closest(size int) {
	found, ok := m.feasible(query{size: size})
	if !ok {
		return
	}
	d := &m.near
	d.size, d.out, d.must = size, 0, m.problem.pinned
	d.classify()
	if len(d.classes) == 1 {
		m.consider(m.smallest(query{size: size}))
		return
	}
	m.consider(found)
	d.best, d.bestCost = m.best, spread(m.rules.Distances, m.best)
	d.limit = m.steps + d.patience
	if d.run(); d.stalled {
		d.probe()
		d.classify()
		d.limit = math.MaxInt
		d.run()
	}
	m.best = d.best
}

// run searches with all classes undecided.
func (d *nearness) run() {
	d.weigh()
	d.left, d.cost, d.stalled = d.size, 0, false
	d.undecided = 1<<len(d.classes) - 1
	d.choose()
}

// probe asks of every node whether there are answers with it, and without it.
func (d *nearness) probe() {
	s := d.search
	for x := range (s.problem.nodes &^ d.must).All() {
		node := mask.Of(x)
		if _, ok := s.feasible(query{size: d.size, keep: node, drop: d.out}); !ok && !s.over {
			d.out |= node
			continue
		}
		if _, ok := s.feasible(query{size: d.size, drop: d.out | node}); !ok && !s.over {
			d.must |= node
		}
	}
}

// weigh improves the prices of the relaxation for the bound by capacity, which has to
// hold for counts that no relaxation sees.
func (d *nearness) weigh() {
	s := d.search
	q := query{size: d.size, drop: d.out}
	s.begin(q)
	s.improve(8, impossible)
	s.begin(q)
	d.worth = s.tolls()
	for t, spare := range s.spare {
		d.worth += s.price[t] * float64(spare)
	}
	bids, paid, _, _ := s.bid()
	d.worth -= paid
	d.paying = append(d.paying[:0], s.order[:bids]...)
	d.pays = s.pays
}

// choose decides the class whose next node is the cheapest, with high counts first.
func (d *nearness) choose() {
	if !d.search.spend(1+len(d.classes)/4) || d.stalled {
		return
	}
	d.stalled = d.search.steps > d.limit
	undecided := d.undecided
	if d.promising() && d.affordable() {
		if d.left == 0 {
			d.reach()
		} else {
			d.split()
		}
	}
	d.undecided = undecided
}

func (d *nearness) split() {
	next, room := -1, 0
	for rest := d.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &d.classes[i]
		room += c.size
		if next < 0 || c.self+c.lin < d.classes[next].self+d.classes[next].lin {
			next = i
		}
	}
	c := &d.classes[next]
	room -= c.size
	d.undecided &^= 1 << next
	for n := min(c.size, d.left); n >= max(c.least, d.left-room) && !d.search.over && !d.stalled; n-- {
		d.count(next, n, 1)
		d.choose()
		d.count(next, n, -1)
	}
	c.count = 0
}

// count adds n nodes of class i to the choice, or takes them away where sign is -1.
func (d *nearness) count(i, n int, sign int64) {
	c := &d.classes[i]
	q, k := len(d.classes), int64(n)
	c.count = n
	d.left -= n * int(sign)
	d.cost += sign * (k*(c.self+c.lin) + k*(k-1)/2*d.way[i*q+i])
	for j := range d.classes {
		if j != i {
			d.classes[j].lin += sign * k * d.way[j*q+i]
		}
	}
}

// promising tells whether the counts so far may still lead to a better mask. On the way
// it decides classes of which no better mask can have a node.
//
// The bound lets each further node pay for itself, for its way to the decided nodes, and for
// half its way to the left-1 nearest undecided ones; all of it doubled, to stay whole.
func (d *nearness) promising() bool {
	for {
		least, most, ok := d.bound()
		if !ok || least > 2*d.bestCost {
			return false
		}
		if least >= 2*d.bestCost-1 && d.lowestMask() >= d.best {
			return false
		}
		out := uint64(0)
		for rest := d.undecided; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if c := &d.classes[i]; least-most+c.value > 2*d.bestCost || d.left == 0 {
				if c.least > 0 {
					return false
				}
				c.count = 0
				out |= 1 << i
			}
		}
		d.undecided &^= out
		if out == 0 {
			return true
		}
	}
}

// bound is the least doubled cost of any mask with the decided counts, and the highest
// value that it includes; false when there are not enough nodes left.
func (d *nearness) bound() (least, most int64, ok bool) {
	q := len(d.classes)
	d.byValue = d.byValue[:0]
	for rest := d.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &d.classes[i]
		c.value = 2 * (c.self + c.lin)
		need := d.left - 1
		for _, j := range d.near[i*q : i*q+q] {
			if need <= 0 {
				break
			}
			if d.undecided>>j&1 == 0 {
				continue
			}
			n := d.classes[j].size
			if int(j) == i {
				n--
			}
			n = min(n, need)
			need -= n
			c.value += int64(n) * d.way[i*q+int(j)]
		}
		at := len(d.byValue)
		d.byValue = append(d.byValue, 0)
		for ; at > 0 && d.classes[d.byValue[at-1]].value > c.value; at-- {
			d.byValue[at] = d.byValue[at-1]
		}
		d.byValue[at] = uint8(i)
	}
	least, left := 2*d.cost, d.left
	for _, i := range d.byValue {
		n := min(d.classes[i].size, left)
		if n == 0 {
			break
		}
		left -= n
		most = d.classes[i].value
		least += int64(n) * most
	}
	return least, most, left == 0
}

// lowestMask is the smallest number that a mask with the decided counts can be.
func (d *nearness) lowestMask() mask.Mask {
	var low, rest mask.Mask
	for i := range d.classes {
		if c := &d.classes[i]; d.undecided>>i&1 == 1 {
			rest |= c.nodes
		} else {
			low |= lowest(c.nodes, c.count)
		}
	}
	return low | lowest(rest, d.left)
}

// affordable tells whether the nodes that the decided counts drop can fit into the bins
// by the root's prices. A decided class keeps exactly its count: to let it keep up to
// that many leaves tens of thousands of hopeless ends to be found out one by one.
func (d *nearness) affordable() bool {
	d.taken = d.taken[:0]
	left := d.left
	for i := range d.classes {
		c := &d.classes[i]
		if d.undecided>>i&1 == 1 {
			left -= c.pinned
			d.taken = append(d.taken, 0)
		} else {
			d.taken = append(d.taken, c.count-c.pinned)
		}
	}
	var paid float64
	for _, x := range d.paying {
		room := &d.taken[d.at[x]]
		if d.undecided>>d.at[x]&1 == 1 {
			room = &left
		}
		if *room > 0 {
			*room--
		} else {
			paid += d.pays[x]
		}
	}
	return paid-d.worth <= margin*(paid+math.Abs(d.worth))
}

// reach takes the smallest mask with the decided counts, if it beats the best.
func (d *nearness) reach() {
	d.members, d.most = d.members[:0], d.most[:0]
	for i := range d.classes {
		d.members = append(d.members, d.classes[i].nodes)
		d.most = append(d.most, d.classes[i].count)
	}
	q := query{size: d.size, drop: d.out, classes: d.members, most: d.most}
	found := d.search.smallest(q)
	if found != 0 && (d.cost < d.bestCost || d.cost == d.bestCost && found < d.best) {
		d.best, d.bestCost = found, d.cost
	}
}
