// Package hint merges what the resources of a pod say about NUMA nodes into one mask:
// the Topology Manager's decision, for up to 64 NUMA nodes, exactly and in microseconds.
//
// # What is asked
//
// Each resource has a list of masks on which its request fits, the hints. The Topology
// Manager takes one mask from each list, intersects them, does so for every combination, and
// keeps the best intersection (R-HINT-50…56): one that is preferred, which takes the same mask
// from every list and each list's blessing; else one whose count is nearest to the
// narrowest mask of the list that needs most. Lists have up to 2^n-1 masks and the
// combinations are their product, which is why the kubelet stops at 8 nodes and can take
// minutes there.
//
// Here a list is a Family, which describes its masks: those that lie in a universe and
// offer enough, which is a property that more nodes never lose, and a few single masks
// beside them. Nothing is listed, and the answer is the same.
//
// # Phase P: a preferred mask
//
// It is in every list and has the size that every list prefers, so the question is: is
// there a T of this size, in the intersection V of all universes, that offers enough in
// every dimension of every list? Explicit masks are tried one by one; align-by-socket,
// which prefers by sockets and not by size, is tried for each choice of sockets.
// A restricted policy needs no more. For single-numa-node only the single nodes are to
// be tried.
//
// # Phase N: the best intersection
//
// Let the lists, copies counted, be U_1…U_k with the upward closed parts Up_1…Up_k, and V
// the intersection of the universes. (Lists that choose one of their explicit masks only
// cut V; there is one branch for each way to choose.)
//
// Theorem 1. T, ∅ ≠ T ⊆ V, is an intersection of one mask from each Up_i if and only if
// V\T can be split into X_1…X_k with U_i\X_i ∈ Up_i. If it can, take the masks U_i\X_i: each
// node of V\T is missing in one, each node outside V is missing in some U_i. If T is such
// an intersection, put every node of V\T into the X_i of one list whose mask lacks it;
// U_i\X_i then contains that mask, and Up_i is closed upwards.
//
// Theorem 2. What can be reached is closed upwards in V, and V itself can be reached: leave
// nodes out of the X_i. So the counts that can be reached are all from some r to |V|, and
// the best is found by asking for the wanted count, then the next higher ones; or it is
// |V|, where that is not more than wanted.
//
// A node of U_i outside V is never dropped. It counts in what the list has to spare and
// costs nothing else: of 34 nodes of which two have CPUs, a search that involves CPUs
// has two to decide about.
//
// # One question
//
// Both phases ask: which few nodes to keep, when each other node is dropped into one of
// some bins, and a bin can lose only so much? (Type problem: one bin in P, one for each list
// and copy in N.) feasible answers by branch and bound. Its bound is a Lagrangian
// relaxation: nodes pay prices for what they take from a bin, and where even the
// cheapest way to pay exceeds what all there is to spare is worth, there is no answer;
// where the cheapest way happens to fit, it is an answer, which is how nearly all questions
// end in the first round. Prices are floats and only ever prune, with a margin; every
// acceptance is counted in integers.
//
// Among answers of one size the smallest number wins. smallest finds it with at most one
// question for each node, because feasible is exact and never has to be asked twice.
// With prefer-closest-numa-nodes the smallest sum of distances wins first. It
// depends only on how many nodes of each class of interchangeable nodes are kept, so
// nearness searches over counts: 2 classes on two sockets, 8 on 32 nodes in quads.
//
// # What is bounded
//
// Both questions are hard in theory: the first contains bin packing, the second the densest
// subgraph. A budget of steps bounds them (DefaultBudget). Machines with a hierarchy of
// distances stay below it. Irregular distances between dozens of nodes, each a class of its own,
// can reach it when a dozen or more of them are asked for.
// Where the budget ends with a mask of the right kind and size in hand, that mask is the
// choice, and Choice.Unproven says that an equal one may be nearer or lower. Where none
// is in hand, Choice.Unsolved says so: only best-effort admits, with all nodes.
package hint
