// Package fleet places pods on many nodes at once.
//
// A Fleet has the state of every node as a value of core/node and asks the node's own planner
// whether a pod fits. It has no admission rules of its own. It adds what a single node cannot know:
// which node is best, and whether the same question was answered before. It does no I/O, uses no
// clock and starts no goroutine. Only one goroutine may use a Fleet at a time.
//
// # Two limits
//
// A node takes a pod only if it is within two limits:
//
//  1. The amounts. Kubernetes adds up what the pods of a node request and compares the sums with
//     the node's allocatable resources (NodeResourcesFit in the scheduler, and the kubelet again at
//     admission). Every pod counts, including pods without exclusive CPUs.
//  2. The plan. The node's managers find CPUs, memory and devices according to the node's policy.
//
// The amounts are compared first, because that takes nanoseconds and a plan takes microseconds.
//
// # Classes and revisions
//
// Pods that differ only in their names get the same answer from a node. They form a Class. A node
// has a revision that grows with every change. The answer of a node to a class is kept until the
// revision changes. The fleet keeps one list of changes, and a class remembers how far it has read
// the list. So a question about a fleet of 10,000 nodes looks only at the nodes that changed since
// this class last asked.
//
// # Scores
//
// Of the nodes that take a pod, the fleet chooses the one that leaves the fewest stranded CPUs
// behind. A free CPU is stranded for a typical request if its NUMA node has fewer free CPUs than
// the request needs there. It is also stranded if the NUMA node has less memory than the request
// needs and the node assigns memory. That does not depend on the topology policy: a policy that
// admits pods with memory far from their CPUs leaves such CPUs to pods that are not aligned. So the
// numbers of different policies can be compared. Weigh sets which requests are typical and how
// often each occurs. Of many kinds of requests, the 256 with the most CPU time count. The score is
// the growth of that sum, as in "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent" (USENIX ATC 2023), with NUMA nodes in place of GPUs. Of nodes
// with equal scores, the fleet chooses the one on which the pod spreads over fewer NUMA nodes, then
// over fewer uncore caches that no other pod uses, then the fullest, then the first by name.
//
// Scoring BestFit compares what is left of each NUMA node instead. If the typical requests are
// known, room is worth what still fits into it: CPUs, memory and devices together, at the weights
// of package packing, which are large for requests that fit badly beside others. The score is what
// a NUMA node loses. Of equal scores, and if no typical requests are known, the tightest NUMA node
// wins: the one on which the least is left, as the sum of the shares of its resources. A pod on
// several NUMA nodes always scores worse than one on one.
//
// An exact score requires a plan. The search for the best node therefore starts with bounds: the
// score that the pod would have on the NUMA node that suits it best. It plans on the node with the
// best bound, replaces the bound with the score, and ends when the best of all values is a score.
// It never plans on a node whose bound is worse than the winner's score. Nodes with the same state
// and amounts, as those of a kind are until they get a pod, are computed once.
package fleet
