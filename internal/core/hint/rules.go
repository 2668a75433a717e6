package hint

import "github.com/paddock-project/paddock/internal/core/mask"

// Policy is the Topology Manager policy. The policy "none" asks for no hints, so it is not here.
type Policy int

// The policies (R-HINT-61…63).
const (
	BestEffort     Policy = iota // best-effort
	Restricted                   // restricted
	SingleNUMANode               // single-numa-node
)

// Rules is how hint sets are merged on one machine.
type Rules struct {
	Policy Policy
	// Nodes are all NUMA nodes of the machine: the default mask (R-HINT-50).
	Nodes mask.Mask
	// Distances is indexed by NUMA node id twice; nil compares by the narrowest mask (R-HINT-53).
	// Set it for prefer-closest-numa-nodes; it has no effect under SingleNUMANode.
	Distances [][]int
	// Budget limits the search in steps; 0 means DefaultBudget.
	Budget int
}

// Choice is the merged hint.
type Choice struct {
	// Mask is the mask that was chosen. HasMask is false where the Topology Manager stores no
	// affinity (R-HINT-63: single-numa-node with the default mask); Mask is then the
	// default mask.
	Mask      mask.Mask
	HasMask   bool
	Preferred bool
	// Admit is the answer of the policy (R-HINT-61…63).
	Admit bool
	// Steps is what the search cost, 0 where the answer needs none. Unproven is true if the budget
	// ended after an answer was found: it has the right kind and size, but an equal one may be
	// closer or have a smaller number.
	Steps    int
	Unproven bool
	// Unsolved is true if the budget ended before an answer was found; Why then names the
	// point. Mask is the default mask, and only best-effort admits.
	Unsolved bool
	Why      string
}
