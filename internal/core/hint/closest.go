package hint

import (
	"math"
	"math/bits"
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
	// least is the number of nodes that must be kept.
	least int
	// count is how many are kept, -1 while undecided; lin what one node more adds by its
	// distances to decided nodes; value the bound's price of one node, doubled.
	count int
	lin   int64
	value int64
}

// nearness is the search for the closest mask: a branch and bound over the number of
// nodes in each class.
type nearness struct {
	classes []twins
	// way is the distance between nodes of two classes, there and back; near lists, for each
	// class, all classes by rising way.
	way  []int64
	near []uint8

	size, left int
	cost       int64
	bestCost   int64
	undecided  uint64

	// byPay are the nodes that may be dropped by falling price of the root's relaxation,
	// and worth is what all slack is worth at these prices.
	byPay []uint8
	paid  [mask.MaxNode + 1]float64
	worth float64

	// at is the class of each node; the others are memory for choose.
	at          [mask.MaxNode + 1]uint8
	members     []mask.Mask
	most, taken []int
	byValue     []uint8
}

// closest considers the closest mask of this size that answers m.problem: the least
// spread, then the smallest number. Any answer that is in hand is a bound to start from.
func (m *merger) closest(size int) {
	found, ok := m.feasible(query{size: size})
	if !ok {
		return
	}
	m.classify()
	if len(m.classes) == 1 || size == m.problem.nodes.Len() {
		m.consider(m.smallest(query{size: size}))
		return
	}
	m.consider(found)
	m.weigh(size)
	m.size, m.left, m.cost = size, size, 0
	m.bestCost = spread(m.rules.Distances, m.best)
	m.undecided = 1<<len(m.classes) - 1
	m.choose()
}

// classify groups the nodes of the problem into twins.
func (m *merger) classify() {
	p := &m.problem
	m.classes = m.classes[:0]
nodes:
	for rest := p.nodes; rest != 0; rest &= rest - 1 {
		x := rest.Lowest()
		for i := range m.classes {
			if c := &m.classes[i]; m.twin(c.nodes.Lowest(), x) {
				c.nodes = c.nodes.With(x)
				c.size++
				continue nodes
			}
		}
		m.classes = append(m.classes, twins{
			nodes: mask.Of(x), size: 1, self: distance(m.rules.Distances, x, x), count: -1,
		})
	}
	for i := range m.classes {
		c := &m.classes[i]
		c.least = (c.nodes & p.pinned).Len()
		for x := range c.nodes.All() {
			m.at[x] = uint8(i)
		}
	}
	m.measureWays()
}

func (m *merger) bothWays(x, y int) int64 {
	return distance(m.rules.Distances, x, y) + distance(m.rules.Distances, y, x)
}

func (m *merger) twin(x, y int) bool {
	if distance(m.rules.Distances, x, x) != distance(m.rules.Distances, y, y) {
		return false
	}
	for rest := m.problem.nodes.Without(x).Without(y); rest != 0; rest &= rest - 1 {
		if z := rest.Lowest(); m.bothWays(x, z) != m.bothWays(y, z) {
			return false
		}
	}
	return true
}

func (m *merger) measureWays() {
	q := len(m.classes)
	m.way, m.near = m.way[:0], m.near[:0]
	for a := range m.classes {
		for b := range m.classes {
			x, y := m.classes[a].nodes.Lowest(), m.classes[b].nodes.Lowest()
			if a == b {
				y = m.classes[b].nodes.Highest()
			}
			m.way = append(m.way, m.bothWays(x, y))
			m.near = append(m.near, uint8(b))
		}
		ways := m.way[a*q:]
		slices.SortStableFunc(m.near[a*q:], func(b, c uint8) int {
			return int(min(max(ways[b]-ways[c], -1), 1))
		})
	}
}

// weigh improves the prices of the relaxation for the bound by capacity, which has to
// hold for counts that no relaxation sees.
func (m *merger) weigh(size int) {
	m.begin(query{size: size})
	m.improve(8, impossible)
	m.begin(query{size: size})
	m.worth = m.tolls()
	for t, spare := range m.spare {
		m.worth += m.price[t] * float64(spare)
	}
	n, _, _, _ := m.bid()
	m.byPay = append(m.byPay[:0], m.order[:n]...)
	m.paid = m.pays
}

// choose decides the class whose next node is the cheapest, with high counts first.
func (m *merger) choose() {
	if !m.spend(1 + len(m.classes)/4) {
		return
	}
	undecided := m.undecided
	if m.promising() && m.affordable() {
		if m.left == 0 {
			m.reach()
		} else {
			m.split()
		}
	}
	m.undecided = undecided
}

func (m *merger) split() {
	next, room := -1, 0
	for rest := m.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &m.classes[i]
		room += c.size
		if next < 0 || c.self+c.lin < m.classes[next].self+m.classes[next].lin {
			next = i
		}
	}
	c := &m.classes[next]
	room -= c.size
	m.undecided &^= 1 << next
	for n := min(c.size, m.left); n >= max(c.least, m.left-room) && !m.over; n-- {
		m.count(next, n, 1)
		m.choose()
		m.count(next, n, -1)
	}
	c.count = 0
}

// count adds n nodes of class i to the choice, or takes them away where sign is -1.
func (m *merger) count(i, n int, sign int64) {
	c := &m.classes[i]
	q, k := len(m.classes), int64(n)
	c.count = n
	m.left -= n * int(sign)
	m.cost += sign * (k*(c.self+c.lin) + k*(k-1)/2*m.way[i*q+i])
	for j := range m.classes {
		if j != i {
			m.classes[j].lin += sign * k * m.way[j*q+i]
		}
	}
}

// promising tells whether the counts so far may still lead to a better mask. On the way
// it decides classes of which no better mask can have a node.
//
// The bound lets each further node pay for itself, for its way to the decided nodes, and for
// half its way to the left-1 nearest undecided ones; all of it doubled, to stay whole.
func (m *merger) promising() bool {
	for {
		least, most, ok := m.bound()
		if !ok || least > 2*m.bestCost {
			return false
		}
		if least >= 2*m.bestCost-1 && m.lowestMask() >= m.best {
			return false
		}
		out := uint64(0)
		for rest := m.undecided; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if c := &m.classes[i]; least-most+c.value > 2*m.bestCost || m.left == 0 {
				if c.least > 0 {
					return false
				}
				c.count = 0
				out |= 1 << i
			}
		}
		m.undecided &^= out
		if out == 0 {
			return true
		}
	}
}

// bound is the least doubled cost of any mask with the decided counts, and the highest
// value that it includes; false when there are not enough nodes left.
func (m *merger) bound() (least, most int64, ok bool) {
	q := len(m.classes)
	m.byValue = m.byValue[:0]
	for rest := m.undecided; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		c := &m.classes[i]
		c.value = 2 * (c.self + c.lin)
		need := m.left - 1
		for _, j := range m.near[i*q : i*q+q] {
			if need <= 0 {
				break
			}
			if m.undecided>>j&1 == 0 {
				continue
			}
			n := m.classes[j].size
			if int(j) == i {
				n--
			}
			n = min(n, need)
			need -= n
			c.value += int64(n) * m.way[i*q+int(j)]
		}
		at := len(m.byValue)
		m.byValue = append(m.byValue, 0)
		for ; at > 0 && m.classes[m.byValue[at-1]].value > c.value; at-- {
			m.byValue[at] = m.byValue[at-1]
		}
		m.byValue[at] = uint8(i)
	}
	least, left := 2*m.cost, m.left
	for _, i := range m.byValue {
		n := min(m.classes[i].size, left)
		if n == 0 {
			break
		}
		left -= n
		most = m.classes[i].value
		least += int64(n) * most
	}
	return least, most, left == 0
}

// lowestMask is the smallest number that a mask with the decided counts can be.
func (m *merger) lowestMask() mask.Mask {
	var low, rest mask.Mask
	for i := range m.classes {
		if c := &m.classes[i]; m.undecided>>i&1 == 1 {
			rest |= c.nodes
		} else {
			low |= lowest(c.nodes, c.count)
		}
	}
	return low | lowest(rest, m.left)
}

// affordable tells whether the nodes that the decided counts drop can fit into the bins
// by the root's prices. A decided class keeps exactly its count: to let it keep up to
// that many leaves tens of thousands of hopeless ends to be found out one by one.
func (m *merger) affordable() bool {
	m.taken = m.taken[:0]
	left := m.left
	for i := range m.classes {
		c := &m.classes[i]
		if m.undecided>>i&1 == 1 {
			left -= c.least
			m.taken = append(m.taken, 0)
		} else {
			m.taken = append(m.taken, c.count-c.least)
		}
	}
	var paid float64
	for _, x := range m.byPay {
		room := &m.taken[m.at[x]]
		if m.undecided>>m.at[x]&1 == 1 {
			room = &left
		}
		if *room > 0 {
			*room--
		} else {
			paid += m.paid[x]
		}
	}
	return paid-m.worth <= margin*(paid+math.Abs(m.worth))
}

// reach considers the smallest mask with the decided counts.
func (m *merger) reach() {
	m.members, m.most = m.members[:0], m.most[:0]
	for i := range m.classes {
		m.members = append(m.members, m.classes[i].nodes)
		m.most = append(m.most, m.classes[i].count)
	}
	m.consider(m.smallest(query{size: m.size, classes: m.members, most: m.most}))
	m.bestCost = spread(m.rules.Distances, m.best)
}
