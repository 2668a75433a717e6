package hint

import (
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Has tells whether m is a mask of the family. A family of kind Any holds every mask
// that is not empty, one of kind None holds none.
func (f Family) Has(m mask.Mask) bool {
	switch f.Kind {
	case Any:
		return !m.IsEmpty()
	case None:
		return false
	case Fits:
	}
	return f.fits(m) || slices.Contains(f.Explicit, m) && !m.IsEmpty()
}

// IsEmpty tells whether the family is of kind Fits and holds no mask. Such a family
// counts as None in Merge.
func (f Family) IsEmpty() bool {
	if f.Kind != Fits || f.fits(f.Universe) {
		return false
	}
	return !slices.ContainsFunc(f.Explicit, func(m mask.Mask) bool { return !m.IsEmpty() })
}

// fits tells whether m belongs to the part of the family that is closed upwards.
func (f Family) fits(m mask.Mask) bool {
	if m.IsEmpty() || !f.Universe.Contains(m) || !m.Contains(f.Required) {
		return false
	}
	for _, touch := range f.Touch {
		if touch&m == 0 {
			return false
		}
	}
	for i := range f.Needs {
		if !f.Needs[i].metBy(m) {
			return false
		}
	}
	return true
}

// within is the family cut to the nodes of a machine. Where the part that is closed
// upwards is empty, so is its universe; explicit masks that this part holds, or that do
// not lie in nodes, are left out.
func (f Family) within(nodes mask.Mask) Family {
	f.Universe &= nodes
	if !f.fits(f.Universe) {
		f.Universe = 0
	}
	var explicit []mask.Mask
	for _, m := range f.Explicit {
		if !m.IsEmpty() && nodes.Contains(m) && !f.fits(m) && !slices.Contains(explicit, m) {
			explicit = append(explicit, m)
		}
	}
	f.Explicit = explicit
	return f
}

// Prefers tells whether a hint of the family with mask m is preferred.
func (f Family) Prefers(m mask.Mask) bool {
	return m.Len() == f.Preferred || f.Sockets != nil && f.Sockets.touched(m) == f.Sockets.Count
}

// copies is the number of lists that the family stands for.
func (f Family) copies() int { return max(f.Copies, 1) }

// touched is the number of sockets on which the nodes of m lie.
func (r *SocketRule) touched(m mask.Mask) int {
	n := 0
	for _, socket := range r.Sockets {
		if socket&m != 0 {
			n++
		}
	}
	return n
}

// metBy tells whether m offers enough. Sums saturate, which cannot change the answer:
// no amount is larger than the value they stop at.
func (n *Need) metBy(m mask.Mask) bool {
	if n.Amount <= 0 {
		return true
	}
	var sum int64
	for id := range m.All() {
		if sum = add(sum, n.offer(id)); sum >= n.Amount {
			return true
		}
	}
	for _, shared := range n.Shared {
		if shared.Nodes&m != 0 {
			sum = add(sum, max(shared.Amount, 0))
		}
	}
	return sum >= n.Amount
}

// Offered is what the nodes of m offer together, as a mask of them would be counted.
func (n *Need) Offered(m mask.Mask) int64 {
	var sum int64
	for id := range m.All() {
		sum = add(sum, n.offer(id))
	}
	for _, shared := range n.Shared {
		if shared.Nodes&m != 0 {
			sum = add(sum, max(shared.Amount, 0))
		}
	}
	return sum
}

// offer is what one node adds by itself; never negative, so that families stay closed
// upwards whatever they are given.
func (n *Need) offer(id int) int64 {
	if id >= len(n.Offer) {
		return 0
	}
	return max(n.Offer[id], 0)
}

// add is addition of amounts that are not negative; it stops at the largest int64.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
