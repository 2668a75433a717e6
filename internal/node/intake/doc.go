// Package intake decides what a pod gets on a node, in a cluster whose scheduler hands over grants.
//
// If a pod has a grant in its annotation, it gets that grant if every rule of the node allows it
// (handover.Check). The node itself plans every other pod. The decision has the reason, and each
// reason is counted.
//
// # Promises
//
// The grant of a pod that is bound to this node and has not started yet is a promise. Reservations
// returns the present promises, for the state that is planned on (node.OnItsWay). A grant that the
// rules of the node do not allow is not a promise. A promise ends when its pod has started, when
// the kubelet no longer lists the pod, or after Config.Promise. So a wrong scheduler, or a pod that
// never starts, does not keep CPUs for good. While the pod is listed, its promise begins only once,
// with the first usable text. A text that changes, or cannot be used for a while, does not renew
// it. Promises take nothing from a pod whose own grant is applied.
//
// # Calls
//
// Plan is used as engine.Config.Plan, and Reservations is a part of engine.Config.Reserve. Decided
// is a method of engine.Observer. No method waits: the pods that the kubelet lists come from
// Config.Listing.
package intake
