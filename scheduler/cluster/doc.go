// Package cluster has what a scheduler knows of the nodes that Paddock manages: for each one a
// state of core/node, which is what the node itself would have.
//
// # What a state is made of
//
//   - The objects of the node (Source): its machine, its policy, its devices, and the grants that the agent
//     published.
//   - The pods that are bound to the node, as the pod informer has them, with the grants of their annotations.
//   - The grants of pods that this scheduler is about to bind (Reserve).
//
// For one pod, a published grant wins over an annotation, and an annotation over what was reserved.
// Where the grants of two pods contradict each other, fleetsource.Settle says which one counts, here
// as for the fleet. A bound pod with nothing of that, or with an annotation that is not valid, is
// planned: its node will do the same, and publish what came out.
//
// # When a state is made
//
// A state is not maintained by events. It is compared with the pod informer's index when the node's
// generation in the scheduler's cache has changed (At), and when a queueing hint asks what a pod
// that ended left behind (After). The index is never older than the scheduler's cache, because an
// informer stores an object before it calls handlers. So a decision never misses what woke the pod
// that it is about, whatever the order of handlers. Only what changed since the last comparison is
// applied.
//
// # Concurrency
//
// Any number of goroutines may use a Cluster. Each node has a lock for changes; readers take the
// view of a node from an atomic pointer and decide on that value.
package cluster
