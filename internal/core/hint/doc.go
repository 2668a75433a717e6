// Package hint merges the topology hints of a pod's resources into one mask of NUMA nodes: the
// decision of the Topology Manager, exactly, for up to 64 NUMA nodes, in microseconds.
//
// # The question
//
// Each resource has a list of masks on which its request fits, the hints. The Topology Manager
// takes one mask from each list, intersects them, does so for every combination, and keeps the
// best intersection (R-HINT-50…56): one that is preferred, which means that all lists gave the
// same mask and all of them prefer it; otherwise one whose size is nearest to that of the
// narrowest mask of the list that needs most. Lists have up to 2^n-1 masks and the combinations
// are their product, so the kubelet stops at 8 NUMA nodes and can take minutes there.
//
// Here a list is a Set, which describes its masks: those that consist of candidate NUMA nodes and
// offer enough, a property that more NUMA nodes never lose, and a few explicit ones.
// Nothing is listed, and the result is the same.
//
// # First phase: a preferred mask
//
// It is in every list and has the size that every list prefers. So the question is: which T of
// this size, within the common candidates V, offers enough in every dimension of every
// list? Explicit masks are tried one by one; align-by-socket, which prefers by sockets and
// not by size, is tried for each choice of sockets. Restricted needs no more, and
// single-numa-node only tries the single NUMA nodes.
//
// Most pods fit on one NUMA node that every list prefers. The lowest of these, or the closest, is
// the answer, and no search is made.
//
// # Second phase: the best intersection
//
// Let the lists, copies counted, have candidates U_1…U_k and upward closed parts Up_1…Up_k, and
// let V be the intersection of the candidates. (A list that chooses one of its explicit masks
// only cuts V; branch tries each way to choose.)
//
// Theorem 1. T, ∅ ≠ T ⊆ V, is an intersection of one mask from each Up_i if and only if V\T can
// be split into X_1…X_k with U_i\X_i ∈ Up_i. If it can, take the masks U_i\X_i: each NUMA node of
// V\T is missing in one, each NUMA node outside V is missing in some U_i. If T is such an
// intersection, put every NUMA node of V\T into the X_i of one list whose mask lacks it; U_i\X_i
// then contains that mask, and Up_i is upward closed.
//
// Theorem 2. What can be reached is upward closed in V, and V itself can be reached: leave NUMA
// nodes out of the X_i. So all sizes from some r to |V| can be reached. The best is found by
// asking for the wanted size, then the next larger ones; or it is |V|, if that is not more than
// wanted.
//
// A NUMA node of U_i outside V is never dropped. It counts in what the list has to spare and
// costs nothing else: if two of 34 NUMA nodes have CPUs, a search that involves CPUs
// decides about two.
//
// # One search
//
// Both phases ask which few NUMA nodes to keep, if each other one has to be dropped into one of
// some bins and a bin can lose only so much: one bin for all lists in the first phase, one for
// each list and copy in the second. Package search answers that.
//
// Its budget of steps bounds the time (DefaultBudget). If it ends when a mask of the right kind
// and size is known, that mask is the choice, and Choice.Unproven means that an equal one may be
// closer or lower. If none is known, Choice.Unsolved is set: only best-effort admits, with all
// NUMA nodes.
package hint
