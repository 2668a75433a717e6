package hint

import "github.com/paddock-project/paddock/internal/core/mask"

// Policy is the Topology Manager policy. The policy "none" does not use hints and is therefore
// missing.
type Policy int

// The policies (R-HINT-61…63).
const (
	BestEffort     Policy = iota // best-effort
	Restricted                   // restricted
	SingleNUMANode               // single-numa-node
)

// Rules configures how hint sets are merged on one machine.
type Rules struct {
	Policy Policy
	// Nodes is the mask of all NUMA nodes of the machine. It is the default mask (R-HINT-50).
	Nodes mask.Mask
	// Distances has the distance between two NUMA nodes, indexed by both ids. Set it for
	// prefer-closest-numa-nodes. If nil, the narrowest mask is the fittest (R-HINT-53). It has no
	// effect under SingleNUMANode.
	Distances [][]int
	// Budget is the maximum number of search steps. Zero means DefaultBudget.
	Budget int
}

// Choice is the merged hint.
type Choice struct {
	// Mask is the chosen mask. HasMask is false if the Topology Manager stores no affinity, as for
	// single-numa-node with the default mask (R-HINT-63). Mask is then the default mask.
	Mask      mask.Mask
	HasMask   bool
	Preferred bool
	// Admit is the answer of the policy (R-HINT-61…63).
	Admit bool
	// Steps is the number of steps that the search took, or 0 if no search was needed. Unproven is
	// true if the budget ended after an answer was found. The answer then has the right kind and
	// size, but an equal one may be closer or have a smaller number.
	Steps    int
	Unproven bool
	// Unsolved is true if the budget ended before an answer was found. Why then describes where it
	// ended, Mask is the default mask, and only best-effort admits.
	Unsolved bool
	Why      string
}
