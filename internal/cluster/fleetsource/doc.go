// Package fleetsource makes the states of nodes from what a cluster shows of them.
//
// What a scheduler knows of a node is its machine, its policy and its devices (the PaddockNode and
// its PaddockMachine), the grants in the annotations of the pods that are bound to it, and the
// grants that the node published. A published grant wins over the annotation of its pod. Node.State
// makes a node.State of these, and Settle is the order in which grants of different pods count that
// contradict each other.
//
// Pods are known by UID. The UID of a static pod is the annotation kubernetes.io/config.hash of its
// mirror pod; UID returns it.
//
// Source watches the objects. Pods are the caller's to watch.
package fleetsource
