// Package capacity answers questions about a fleet that does not run yet, or not in this form: do
// these pods fit, what fills it, and how many nodes are needed?
//
// Every answer comes from package fleet, and therefore from the nodes' own planner. Pods are placed
// one after the other in an order, each on the best node at that moment. No pod is moved later. So
// an answer is what a scheduler with the same scoring reaches. The same input gives the same
// answer.
//
// # How many nodes
//
// Fewest has two sides that approach each other:
//
//   - From above, it places the pods in several ways, each with a scoring and an order. It begins
//     with best fit per NUMA node and the largest pods first. Later ways only have to be better.
//   - From below, it has a bound that no placement can break: that of the sums of the requests, or
//     that of package packing, which sees what fits together on a NUMA node. Package fleet describes
//     what the policy of a node makes sure of (fleet.Relaxed). Pods that the policy may split
//     over NUMA nodes count against the whole node only, so that the bound is true for them, too.
//
// Where both meet, the number is optimal. A search can end at any time with the best number so far,
// because its first number comes after a few placements, and each later one takes all pods, too.
// SizeMix does the same for the price of nodes of several kinds.
//
// # What is missing
//
// Scarcity describes the limit of a fleet by what rejected pods lack on its places after all pods
// were placed. A place is a NUMA node where the policy admits a pod or a container on a single NUMA
// node only, and otherwise the node as a whole (explain.Missing). A resource is missing on a place
//
//   - by what the Topology Manager was asked for and the NUMA node does not offer: under scope
//     container for the first container that finds no place beside those before it, and
//   - by what the pod requests above what is left of the node's allocatable amount. This is missing
//     on every place of the node. The larger amount counts.
//
// So if one resource alone is missing on a NUMA node, a pod with a single container and that
// much less of it fits there. A place is barred if no amount is missing but something else keeps
// the pod off: memory that belongs to a group of NUMA nodes, devices that were chosen elsewhere,
// a number of CPUs that is not a number of whole cores. Where this comes on top of an amount,
// the amount counts, but not as the only one. Nothing is missing on a node that has enough, but
// on no NUMA nodes that the policy admits together. There is no account of a node that rejects
// the pod before it compares resources, and of one on which the pod may not run, be it for its
// labels or for a rule of the scheduler.
//
// The pods that a smaller request frees are really placed, one after the other, on a copy of the
// fleet as it is in the end. Pods that were placed keep what they have. Not counted are pods for
// which a rule of the scheduler applies, pods that nodes read differently, and pods with init
// containers that ask for the resource. All counts together place at most as many pods as the
// question did.
package capacity
