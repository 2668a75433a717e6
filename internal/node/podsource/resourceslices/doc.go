// Package resourceslices watches the ResourceSlices of one Kubernetes node: which NUMA nodes the
// devices of its DRA drivers are near.
//
//	New(options)                  a watch; it sends no request
//	Watch.Run(ctx)                lists and watches until ctx ends
//	Watch.Places()                what is known now
//	Claims.Allocation(name)       which of them are allocated to a ResourceClaim, for which request
//
// Places never waits: it is a pointer to a value that does not change. While the API server is
// away, it has what was known before; before the first list, it is nil.
//
// # What waits, and for how long
//
//	a list     30 s, then it fails
//	a watch    the time that client-go asks the server for, 5 to 10 minutes, and 30 s; then the next one begins
//	a claim    5 s, then it fails
//	an error   client-go's back-off: 0.8 s at first, 30 s at most
//
// Claims cannot be watched for one Kubernetes node, so each is asked for by its name, in the
// background: no answer to the runtime waits for it. The kubelet's PodResources socket does not
// list the requests of a claim.
//
// # Bad slices
//
// Answers are limited in bytes (package apiserver), lists in their number of slices, and slices in
// their number of devices (claims.ReadSlice). A slice that is not as an API server accepts it is
// left out, with a line in the log: its devices are not known. An answer that is no list fails, and
// what was known stays.
package resourceslices
