// Package hint merges the topology hints of a pod's resources into one mask of NUMA nodes. It makes
// exactly the decision of the Topology Manager, for up to 64 NUMA nodes, in microseconds.
//
// # The question
//
// Each resource has a list of hints: the masks on which its request fits. The Topology Manager
// takes one mask from each list and intersects them. It does so for every combination and keeps the
// best intersection (R-HINT-50…56). The best intersection is a preferred one, which means that all
// lists gave the same mask and all of them prefer it. If there is none, it is the one whose size is
// nearest to that of the narrowest mask of the list that needs most. A list has up to 2^n-1 masks,
// and the number of combinations is the product of the lengths of the lists. The kubelet therefore
// stops at 8 NUMA nodes and can take minutes there.
//
// In this package, a list is a Set, which only describes its masks. These are all masks that
// consist of candidate NUMA nodes and offer enough, a property that more NUMA nodes never take
// away, and a few explicit masks. No list is written out, and the result is the same.
//
// # First phase: a preferred mask
//
// A preferred mask is in every list and has the size that every list prefers. So the question is:
// which mask T of this size, within the common candidates V, offers enough in every dimension of
// every list? Explicit masks are tried one by one. align-by-socket prefers masks by sockets instead
// of by size, so each choice of sockets is tried. Restricted needs only this phase, and
// single-numa-node tries only the single NUMA nodes.
//
// Most pods fit on one NUMA node that every list prefers. The lowest or the closest of these NUMA
// nodes is the answer, without a search.
//
// # Second phase: the best intersection
//
// Let the lists, with each copy counted, have candidates U_1…U_k and upward closed parts Up_1…Up_k.
// Let V be the intersection of the candidates. (A list that chooses one of its explicit masks only
// cuts V; branch tries each such choice.)
//
// Theorem 1. T, ∅ ≠ T ⊆ V, is an intersection of one mask from each Up_i if and only if V\T can be
// split into X_1…X_k with U_i\X_i ∈ Up_i. If it can be split, take the masks U_i\X_i: each NUMA
// node of V\T is missing in one of them, and each NUMA node outside V is missing in some U_i. If T
// is such an intersection, put every NUMA node of V\T into the X_i of one list whose mask lacks it.
// U_i\X_i then contains that mask, and Up_i is upward closed.
//
// Theorem 2. The set of reachable masks is upward closed in V: leave NUMA nodes out of the X_i. V
// itself is reachable. So all sizes from some r to |V| are reachable. To find the best mask, ask
// for the wanted size and then for the next larger ones. If |V| is not more than the wanted size, V
// is the best mask.
//
// A NUMA node of U_i outside V is never dropped. It counts toward what the list has to spare and
// has no other cost. For example, if two of 34 NUMA nodes have CPUs, a search that involves CPUs
// decides about two NUMA nodes.
//
// # One search
//
// Both phases ask the same question: which few NUMA nodes are kept, if each other one must be
// dropped into one of some bins, and a bin can lose only a limited amount? The first phase has one
// bin for all lists, the second one bin for each copy of each list. Package search answers the
// question.
//
// A budget of steps bounds the time (DefaultBudget). If the budget ends after a mask of the right
// kind and size is found, that mask is the choice. Choice.Unproven then means that an equal mask
// may be closer or lower. If the budget ends earlier, Choice.Unsolved is set, and only best-effort
// admits the pod, with all NUMA nodes.
package hint
