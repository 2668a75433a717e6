package hint

import (
	"github.com/paddock-project/paddock/internal/core/hint/search"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Need is one dimension of a Set: a mask must offer at least Amount of a resource.
type Need struct {
	Resource string
	// Which is the kind of the resource that counts, for people, if not all of it does: "isolated".
	Which  string
	Amount int64
	// Offer is the amount that each NUMA node offers, indexed by its id. NUMA nodes beyond its end
	// offer nothing. Values are not negative.
	Offer []int64
	// Shared lists the amounts that several NUMA nodes offer together, for devices that are local
	// to more than one NUMA node.
	Shared []SharedOffer
}

// SharedOffer is an amount that a mask gets once if it has at least one of Nodes.
type SharedOffer struct {
	Nodes  mask.Mask
	Amount int64
}

// Offered returns the amount that the NUMA nodes of m offer together. It is capped at the largest
// int64, which no amount exceeds.
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

// sum returns the amount that the NUMA nodes of m offer on their own. The offer of each NUMA node
// is capped at Amount.
func (n *Need) sum(m mask.Mask) int64 {
	var sum int64
	for id := range m.All() {
		sum = search.Add(sum, min(n.offer(id), n.Amount))
	}
	return sum
}

// offer returns the amount that one NUMA node offers on its own. It is never negative, so that sets
// are upward closed whatever their input is.
func (n *Need) offer(id int) int64 {
	if id >= len(n.Offer) {
		return 0
	}
	return max(n.Offer[id], 0)
}
