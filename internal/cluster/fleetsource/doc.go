// Package fleetsource builds the states of nodes from what a cluster shows of them.
//
// A scheduler knows a node's machine, policy and devices (from the PaddockNode and its
// PaddockMachine), the grants in the annotations of the pods that are bound to it, and the grants
// that the node published. A published grant wins over the annotation of its pod. Node.State builds
// a node.State from these. Settle defines the order of precedence of grants of different pods that
// contradict each other.
//
// Pods are identified by UID. The UID of a static pod is the annotation kubernetes.io/config.hash
// of its mirror pod; UID returns it.
//
// Source watches the objects, except for pods, which the caller watches.
package fleetsource
