// Package kueue answers the admission checks of Kueue that name this controller: would the fleet as
// it is take the pods of a workload together?
//
// Kueue compares sums of resources. With topology-aware scheduling it does so for each node, and
// then fixes the nodes of a workload before a scheduler sees its pods. If the pods do not fit by
// the rules of these nodes, they wait for as long as Kueue waits for them, and the workload keeps
// its quota. The check asks the planner of each node before Kueue admits the workload.
//
// # When a workload is judged
//
// Kueue has reserved quota for it, this check is Pending, and no other check of the workload is
// waiting: a check that provisions nodes must have ended first. The answer is one of these:
//
//   - Ready: all pods fit together. Pods with a topology assignment were asked for in its domains,
//     and the others on the nodes that their node selector, their affinity, the taints and their
//     resource flavors allow.
//   - Ready, but not judged: the workload cannot be read, or is too large. The check never blocks
//     what it does not understand. The message has the reason.
//   - Retry: some pod does not fit. Kueue evicts the workload and tries again after a time that
//     doubles with each Retry, from First to Longest. The message has what is short on which NUMA
//     node. Kueue replaces it when it evicts the workload, so it is also an event.
//
// No workload is ever Rejected: that would deactivate it, and nodes can be added.
//
// # A prediction, not a reservation
//
// An answer is about the nodes at the beginning of a pass, at most MaxPass ago. Until the pods are
// bound, this package keeps their places from other workloads, for KeepFor after the answer. It
// keeps them in its own view of the fleet alone: a pod that does not come through Kueue can take
// such a place, and the scheduler does not know of them. Another process that takes over finds
// which workloads became Ready in their status, and plans their places again.
//
// An answer is about nodes and does not see rules about pods of other nodes (topology spread, pod
// affinity), volumes, and the devices of ResourceClaims.
package kueue
