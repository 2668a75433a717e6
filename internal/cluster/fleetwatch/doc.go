// Package fleetwatch watches a cluster and shows what its nodes have: PaddockNodes,
// PaddockMachines, Nodes and Pods become a clusterstate.Moment. It reads only.
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
// list and watch of nodes and pods in the core group, and of paddocknodes and paddockmachines in
// paddock-project.github.io, in all namespaces. Nothing else is asked for.
//
// # While the API server is away
//
// What was known stays. client-go's reflectors try again, after 0.8 s at first and 30 s at most. A
// connection that is cut is noticed at once, one that only falls silent after 45 s (HTTP/2 pings of
// client-go).
//
// # How much
//
// Pods that have ended are not asked for. Of objects is kept what decides, as soon as they are
// decoded. A change costs making its node again.
package fleetwatch
