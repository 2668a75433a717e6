// Package fleetwatch watches a cluster and shows the resources of its nodes. It turns PaddockNodes,
// PaddockMachines, Nodes and Pods into a clusterstate.Moment. It only reads.
//
//	New(config, now)       a watch; it sends no request
//	Watch.Check(ctx)       whether everything may be read; one object of each kind is asked for
//	Watch.Run(ctx)         lists and watches until ctx ends
//	Watch.Moment()         what is known now
//	Watch.Changed()        closed when that is no longer all
//	Watch.Trouble()        since when the API server does not answer, and why
//
// # Permissions
//
// It needs list and watch of nodes and pods in the core group, and of paddocknodes and
// paddockmachines in paddock-project.github.io, in all namespaces, and nothing else.
//
// An API server forbids requests after its start until it has read its roles. So Trouble shows an
// answer that is forbidden as that of an API server that is starting, until it has lasted for
// authorizer.Grace. Check fails at once, with that reason if /readyz is not ready.
//
// # While the API server is away
//
// The last known state remains. client-go's reflectors try again after 0.8 s at first and after 30
// s at most. A closed connection is noticed at once. A connection that only falls silent is noticed
// after 45 s (HTTP/2 pings of client-go).
//
// # How much
//
// Pods that have ended are not requested. Objects are reduced to the fields that matter as soon as
// they are decoded. A change costs rebuilding its node.
package fleetwatch
