// Package clusterstate represents a cluster as its objects show it: nodes with the resources of
// their pods, the nodes that cannot be planned for and why, the pods without a node, and what nodes
// rejected.
//
// A Cluster takes objects one by one, in any order, from a file or from a watch:
//
//	SetNode, SetPaddock, SetPod    an object is there, has changed, or is gone
//	Moment()                       what they show together, as a value that does not change
//
// Moment rebuilds only nodes of which something changed. Package fleetsource builds a node in the
// same way as for a scheduler: from its published grants, the grants in the annotations of its
// pods, and a plan for pods that have neither.
//
// # Memory
//
// Only the fields that matter are kept of an object (podspec.Slim). Pods with equal specifications
// share one, so a pod of a workload costs only its names, its annotation and its grant. 5,000 nodes
// with 100,000 pods take about 120 MiB; BenchmarkCluster in package fleetcommand measures it.
//
// # Bad objects
//
// Nothing in an object is an error for other objects. A node that cannot be planned for has a
// Problem. A pod that cannot be read counts as a pod that requests nothing, with a note about its
// node.
package clusterstate
