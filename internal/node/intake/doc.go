// Package intake decides for a node what a pod gets, in a cluster whose scheduler hands grants
// over.
//
// A pod with a grant in its annotation gets that, if every rule of the node allows it
// (handover.Check). Every other pod is planned by the node itself. The decision has why, and it is
// counted.
//
// # Promises
//
// The grant of a pod that is bound to this node and has not started yet is a promise. Reservations
// are the promises of now, for the state that is planned on (node.OnItsWay). A grant that the rules
// of the node do not allow is no promise. A promise ends when its pod has started, when the kubelet
// does not list it any more, or after Config.Promise. So a scheduler that is wrong, or a pod that
// never starts, does not keep CPUs for good. While the pod is listed, its promise has one
// beginning, the first usable text: a text that changes, or cannot be used for a while, does not
// renew it. Promises take nothing from a pod whose own grant is applied.
//
// # Calls
//
// Plan is engine.Config.Plan, and Reservations is a part of engine.Config.Reserve. Decided is an
// engine.Observer's. No method waits: the pods that the kubelet lists come from Config.Listing.
package intake
