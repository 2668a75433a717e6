// Package clusterstate is a cluster as its objects show it: nodes with what their pods have, the
// nodes that cannot be planned for and why, the pods that no node has, and what nodes rejected.
//
// A Cluster takes objects one by one, in any order, as a file has them or as a watch brings them:
//
//	SetNode, SetPaddock, SetPod    an object is there, has changed, or is gone
//	Moment()                       what they show together, as a value that does not change
//
// Moment makes only those nodes again of which something changed. A node is made by package
// fleetsource, as a scheduler makes it: its published grants, the grants in the annotations of its
// pods, and a plan for pods that have neither.
//
// # Memory
//
// Of an object is kept what decides (podspec.Slim). Pods whose specifications are equal share one,
// so that a pod of a workload costs its names, its annotation and its grant. 5,000 nodes with
// 100,000 pods take about 120 MiB; BenchmarkCluster of package fleetcommand measures it.
//
// # Bad objects
//
// Nothing that an object contains is an error for the others: a node that cannot be planned for has
// a Problem, and a pod that cannot be read counts as one that requests nothing, with a note at its
// node.
package clusterstate
