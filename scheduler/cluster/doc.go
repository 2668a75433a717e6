// Package cluster represents what a scheduler knows of the nodes that Paddock manages. It has one
// state of internal/core/node per node, which should equal the state of the node itself.
//
// # Sources of a state
//
//   - The objects of the node (Source): its machine, its policy, its devices, and the grants that the agent
//     published.
//   - The pods that are bound to the node, as the pod informer has them, with the grants of their annotations.
//   - The grants of pods that this scheduler is about to bind (Reserve).
//
// For one pod, a published grant takes precedence over an annotation, and an annotation over a
// reserved grant. If the grants of two pods contradict each other, shown.Settle decides which one
// counts, here as in a fleet. A bound pod without any of these, or with an invalid annotation, is
// planned: its node will do the same, and publish the result.
//
// The grant of a pod that is gone counts until its agent no longer publishes it. Soon is the node
// without these grants: preemption counts with that.
//
// # Nodes whose kubelet decides
//
// An agent can observe a node and leave the decisions to the kubelet. Its PaddockNode then has
// which rules the kubelet follows, all grants, and what the kubelet has beside them. The annotations
// of pods have no effect there, and a reservation is a prediction. Pods about which the kubelet has
// not decided are planned here in the order of their creation and, up to three of them, in every
// other order (At.Others): a pod fits only if it fits after each. A kubelet can also decide about
// that pod before the others, so it is reserved only if they still fit then. With more than three
// pods, the node takes no other one until its kubelet has decided.
//
// Pods that have ended are in the kubelet's files until its next admission. It has released what
// they had when it decides about a pod that was bound after their objects were gone. It can have
// decided about pods that were bound before, with or without them. The memory of init containers
// that no other container of their pod uses is free once those have started, at any time.
//
// What the agent published last counts for World.AgentAway after the agent stopped being ready.
//
// If it is not known what the kubelet has, the node is unsure (At.Unsure): the agent only reads, so
// it must not keep pods waiting, and the other plugins decide.
//
// # When a state is updated
//
// Events do not update a state. It is compared with the pod informer's index when the node's
// generation in the scheduler's cache has changed (At), and when a queueing hint asks what a pod
// that ended left behind (After). The index is never older than the scheduler's cache, because an
// informer stores an object before it calls handlers. So a decision about a pod never misses the
// event that woke the pod, whatever the order of handlers. Only changes since the last comparison
// are applied.
//
// # Trials
//
// A scheduler places a group of pods on trial before it binds any of them. A Trial has copies of the
// nodes that such an attempt changes. The nodes themselves never show what is reserved in it.
//
// # Concurrency
//
// Any number of goroutines may use a Cluster. Each node has a lock for changes. Readers load the
// view of a node from an atomic pointer and decide on that value.
package cluster
