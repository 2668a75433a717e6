package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

//go:generate go tool stringer -type=Kind,Policy -linecomment -output=enum_string.go

// Kind tells what a provider has to say about where a resource may come from.
type Kind int

const (
	// Any: the provider does not care (R-HINT-11, nil list). The zero Family is of this kind.
	Any Kind = iota // any
	// None: no placement can satisfy it (R-HINT-11, empty list): no preferred answer
	// exists any more, but masks of the others still count.
	None // none
	// Fits: the masks that the family describes.
	Fits // fits
)

// Family describes the NUMA masks on which a request for one resource fits, without
// listing them. A family of kind Fits holds
//
//   - every mask A, ∅ ≠ A ⊆ Universe, with Required ⊆ A, A ∩ t ≠ ∅ for every t of Touch,
//     and, for every dimension, an offer of at least its need: this part is closed
//     upwards inside the universe;
//   - every mask of Explicit.
//
// A hint of the family is preferred when its mask has Preferred nodes, or when Sockets
// says so.
type Family struct {
	// Resource is the name that people read: "cpu", "hugepages-2Mi".
	Resource string
	Kind     Kind
	// Why says in words what is missing, for kind None.
	Why string

	Universe mask.Mask
	Required mask.Mask
	Touch    []mask.Mask
	Needs    []Need
	Explicit []mask.Mask
	// Copies is the number of lists with these very masks: the memory manager gives one
	// for each requested type. 0 counts as 1. Each copy picks its own mask in the merge.
	Copies int
	// Preferred is the size of a preferred mask (R-HINT-24, R-HINT-32, R-HINT-43).
	Preferred int
	// Sockets is the further way to be preferred of align-by-socket, or nil.
	Sockets *SocketRule
}

// Need is one dimension of a family: a mask must offer at least Amount.
type Need struct {
	Resource string
	Amount   int64
	// Offer is what each NUMA node adds, indexed by node id; nodes beyond its end offer
	// nothing. Values are not negative.
	Offer []int64
	// Shared is what several NUMA nodes offer together: counted once when a mask touches
	// any of them. Devices that hang between NUMA nodes are of this sort.
	Shared []SharedOffer
}

// SharedOffer is an amount that a mask gets when it touches any of Nodes.
type SharedOffer struct {
	Nodes  mask.Mask
	Amount int64
}

// SocketRule is align-by-socket: a mask whose nodes lie on exactly Count sockets is
// preferred whatever its size (R-HINT-25).
type SocketRule struct {
	Count int
	// Sockets are the NUMA nodes of each socket, ascending by socket id.
	Sockets []mask.Mask
}

// Policy is the Topology Manager policy. The policy "none" asks for no hints, so it does
// not occur here.
type Policy int

// The policies (R-HINT-61…63).
const (
	BestEffort     Policy = iota // best-effort
	Restricted                   // restricted
	SingleNUMANode               // single-numa-node
)

// Rules is how families are merged on one machine.
type Rules struct {
	Policy Policy
	// Nodes are all NUMA nodes of the machine: the default mask (R-HINT-50).
	Nodes mask.Mask
	// Distances is indexed by node id twice; nil: compare by the narrowest mask
	// (R-HINT-53). Set it for prefer-closest-numa-nodes; it has no effect under
	// SingleNUMANode.
	Distances [][]int
	// Budget bounds the search in steps; 0 means DefaultBudget.
	Budget int
}

// Choice is the merged hint.
type Choice struct {
	// Mask is what was chosen. HasMask is false where the Topology Manager stores no
	// affinity (R-HINT-63: single-numa-node with the default mask); Mask is then the
	// default mask.
	Mask      mask.Mask
	HasMask   bool
	Preferred bool
	// Admit is what the policy says of it (R-HINT-61…63).
	Admit bool
	// Steps is what the search cost. Unproven is true where the budget ended: the answer
	// is of the right kind and size, but among equals a better one may exist.
	Steps    int
	Unproven bool
	// Unsolved is true where the budget ended before any answer was found; Why then says
	// where. The default mask stands in for it, and only best-effort admits.
	Unsolved bool
	Why      string
}
