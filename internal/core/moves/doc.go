// Package moves finds running pods to move so that another pod fits (docs/rules/moves.md).
//
// A node that has enough of everything in total can still reject a pod, because what is free is
// spread over its NUMA nodes. Find looks for the cheapest set of moves, at most two, after which
// the pod is admitted, or is aligned as its policy prefers. It changes nothing, and it decides
// nothing: node.State.Plan and Replan choose every place. A Set is proven by carrying it out on
// values: move after move with node.State.Move, then the plan of the pod.
//
// # What is tried
//
// For a set of pods, every order is planned: the pods of the set leave the node, and they and the
// new pod are planned one after the other. A result counts if the moved pods are aligned as well as
// before, consent, and can move one after the other into places that are free at that moment.
//
// # Why not all of them
//
// With 200 pods there are 20,000 sets of two, and each has six orders. A set is planned only if a
// count for each NUMA node allows it (bound.go). The count compares what is free there and what the
// moved pods leave with what must be on one NUMA node. The count never excludes a set that the core
// would accept, and it gives the least cost of the set. Sets are planned by ascending cost, and the
// search ends at the first cost that cannot be less than the best one found.
package moves
