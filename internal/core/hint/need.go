package hint

import (
	"github.com/paddock-project/paddock/internal/core/hint/search"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Need is one dimension of a Set: a mask must offer at least Amount of a resource.
type Need struct {
	Resource string
	Amount   int64
	// Offer is what each NUMA node offers, indexed by its id; NUMA nodes beyond its end offer
	// nothing. Values are not negative.
	Offer []int64
	// Shared is what several NUMA nodes offer together: devices that are local to more than one.
	Shared []SharedOffer
}

// SharedOffer is an amount that a mask gets once if it has any of Nodes.
type SharedOffer struct {
	Nodes  mask.Mask
	Amount int64
}

// Offered is what the NUMA nodes of m offer together. It stops at the largest int64, which no
// amount exceeds.
func (n *Need) Offered(m mask.Mask) int64 {
	var sum int64
	for id := range m.All() {
		sum = search.Add(sum, n.offer(id))
	}
	for _, shared := range n.Shared {
		if shared.Nodes&m != 0 {
			sum = search.Add(sum, max(shared.Amount, 0))
		}
	}
	return sum
}

// sum is what the NUMA nodes of m offer by themselves, each cut to the amount.
func (n *Need) sum(m mask.Mask) int64 {
	var sum int64
	for id := range m.All() {
		sum = search.Add(sum, min(n.offer(id), n.Amount))
	}
	return sum
}

// offer is what one NUMA node offers by itself. It is never negative, so that sets are upward
// closed whatever they are given.
func (n *Need) offer(id int) int64 {
	if id >= len(n.Offer) {
		return 0
	}
	return max(n.Offer[id], 0)
}
