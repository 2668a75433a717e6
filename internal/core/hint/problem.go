package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// problem is the question that both phases come down to: which few of nodes to keep,
// when each of the others has to be dropped into one of the bins, and a bin can lose
// only so much.
//
// In phase P there is one bin, which stands for all lists together: what is dropped is
// missing in every list. In phase N each list, each copy of one too, is a bin: a node
// is missing in the merged mask as soon as one list's mask leaves it out.
type problem struct {
	nodes mask.Mask
	bins  []bin
	// slack is, for each dimension, how much its bin can lose.
	slack []int64
	// cost is what a bin loses with a node: of dimension t, node x at t*stride+x.
	cost   []int64
	stride int
	groups []group
	// pinned nodes fit into no bin; free nodes cost nothing in one of them.
	pinned, free mask.Mask
}

// bin is the dimensions first to end, and the nodes that may be dropped into it.
type bin struct {
	open       mask.Mask
	first, end int
	// twin tells that the bin is another copy of the one before it.
	twin bool
}

// group is an amount that its bin loses when all of nodes are dropped into it: a device
// between NUMA nodes, or, with a dimension of slack 0, a set that must keep a node.
type group struct {
	nodes    mask.Mask
	bin, dim int
	amount   int64
}

func (p *problem) reset(nodes mask.Mask) {
	p.nodes, p.stride = nodes, nodes.Highest()+1
	p.bins, p.slack, p.cost, p.groups = p.bins[:0], p.slack[:0], p.cost[:0], p.groups[:0]
	p.pinned, p.free = 0, 0
}

func (p *problem) openBin(twin bool) {
	p.bins = append(p.bins, bin{open: p.nodes, first: len(p.slack), end: len(p.slack), twin: twin})
}

// constrain makes the last bin lose no more than the upward closed part of the family
// can spare, where masks are cut from universe. False: not even the whole universe
// belongs to the family.
func (p *problem) constrain(f *Family, universe mask.Mask) bool {
	if !universe.Contains(f.Required) {
		return false
	}
	p.bins[len(p.bins)-1].open &^= f.Required
	for _, touch := range f.Touch {
		if !p.keepOneOf(touch & universe) {
			return false
		}
	}
	for i := range f.Needs {
		if !p.need(&f.Needs[i], universe) {
			return false
		}
	}
	return true
}

// keepOneOf forbids that all of set are dropped into the last bin. Nodes of the set
// that are not at stake stay anyway.
func (p *problem) keepOneOf(set mask.Mask) bool {
	switch {
	case set.IsEmpty():
		return false
	case !p.nodes.Contains(set):
	case set.Len() == 1:
		p.bins[len(p.bins)-1].open &^= set
	default:
		p.addGroup(set, p.addDimension(0), 1)
	}
	return true
}

// need adds a dimension for what is needed. Offers are cut to the amount, which changes
// no mask's answer and keeps the sums far from overflow; past that they saturate, so
// that amounts of exabytes may be refused but are never given twice.
func (p *problem) need(n *Need, universe mask.Mask) bool {
	if n.Amount <= 0 {
		return true
	}
	var total, atStake int64
	for x := range universe.All() {
		offer := min(n.offer(x), n.Amount)
		total = add(total, offer)
		if p.nodes.Has(x) {
			atStake = add(atStake, offer)
		}
	}
	for _, s := range n.Shared {
		if touched := s.Nodes & universe; touched != 0 {
			offer := min(max(s.Amount, 0), n.Amount)
			total = add(total, offer)
			if p.nodes.Contains(touched) {
				atStake = add(atStake, offer)
			}
		}
	}
	if total < n.Amount {
		return false
	}
	if slack := total - n.Amount; atStake > slack {
		p.fill(p.addDimension(slack), n, universe)
	}
	return true
}

func (p *problem) fill(dim int, n *Need, universe mask.Mask) {
	costs := p.cost[dim*p.stride:]
	for x := range (p.nodes & universe).All() {
		costs[x] = min(n.offer(x), n.Amount)
	}
	for _, s := range n.Shared {
		touched := s.Nodes & universe
		if touched == 0 || !p.nodes.Contains(touched) {
			continue
		}
		offer := min(max(s.Amount, 0), n.Amount)
		if touched.Len() == 1 {
			costs[touched.Lowest()] = add(costs[touched.Lowest()], offer)
			continue
		}
		p.addGroup(touched, dim, offer)
	}
}

func (p *problem) addDimension(slack int64) int {
	p.slack = append(p.slack, slack)
	p.bins[len(p.bins)-1].end = len(p.slack)
	size := len(p.cost) + p.stride
	p.cost = slices.Grow(p.cost, p.stride)[:size]
	clear(p.cost[size-p.stride:])
	return len(p.slack) - 1
}

func (p *problem) addGroup(nodes mask.Mask, dim int, amount int64) {
	for i := range p.groups {
		if g := &p.groups[i]; g.nodes == nodes && g.dim == dim {
			g.amount = add(g.amount, amount)
			return
		}
	}
	p.groups = append(p.groups, group{nodes: nodes, bin: len(p.bins) - 1, dim: dim, amount: amount})
}

// finish closes the bins for nodes that cost more than there is to lose, forgets groups
// that can no longer be lost as a whole, and finds the pinned and the free nodes.
func (p *problem) finish() {
	p.pinned = p.nodes
	for i := range p.bins {
		b := &p.bins[i]
		for x := range b.open.All() {
			for t := b.first; t < b.end; t++ {
				if p.cost[t*p.stride+x] > p.slack[t] {
					b.open = b.open.Without(x)
					break
				}
			}
		}
		p.pinned &^= b.open
	}
	p.groups = slices.DeleteFunc(p.groups, func(g group) bool {
		return g.amount == 0 || !p.bins[g.bin].open.Contains(g.nodes)
	})
	for i := range p.bins {
		p.free |= p.costless(i)
	}
}

// costless are the nodes that bin i loses nothing with.
func (p *problem) costless(i int) mask.Mask {
	b := &p.bins[i]
	free := b.open
	for _, g := range p.groups {
		if g.bin == i {
			free &^= g.nodes
		}
	}
	for x := range free.All() {
		for t := b.first; t < b.end; t++ {
			if p.cost[t*p.stride+x] > 0 {
				free = free.Without(x)
				break
			}
		}
	}
	return free
}

// fewest is a lower bound of the number of nodes to keep when there is one bin: in each
// dimension, drop the cheapest as long as the slack lasts. With one dimension and no
// groups it is the answer.
func (p *problem) fewest() int {
	least := max(p.pinned.Len(), 1)
	var costs [mask.MaxNode + 1]int64
	for t := range p.slack {
		n := 0
		for x := range (p.nodes &^ p.pinned).All() {
			costs[n] = p.cost[t*p.stride+x]
			n++
		}
		slices.Sort(costs[:n])
		rest := p.slack[t]
		kept := n
		for _, c := range costs[:n] {
			if c > rest {
				break
			}
			rest -= c
			kept--
		}
		least = max(least, p.pinned.Len()+kept)
	}
	return least
}
