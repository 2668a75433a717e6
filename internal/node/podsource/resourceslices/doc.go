// Package resourceslices watches the ResourceSlices of one Kubernetes node, which show near which
// NUMA nodes the devices of its DRA drivers are.
//
//	New(options)                  returns a watch; it sends no request
//	Watch.Run(ctx)                lists and watches until ctx ends
//	Watch.Places()                returns what is known now
//	Claims.Allocation(name)       returns the devices that are allocated to a ResourceClaim, and for which request
//
// Places never waits: it returns a pointer to a value that does not change. While the API server is
// away, the value is the one that was known before. Before the first list, it is nil.
//
// # Time limits
//
//	a list     30 s, then it fails
//	a watch    the time that client-go asks the server for, 5 to 10 minutes, and 30 s; then the next one begins
//	a claim    5 s, then it fails
//	an error   client-go's back-off: 0.8 s at first, 30 s at most
//
// Claims cannot be watched for one Kubernetes node, so each claim is requested by its name, in the
// background. No answer to the runtime waits for it. The kubelet's PodResources socket does not
// list the requests of a claim.
//
// # Bad slices
//
// Answers are limited in bytes (package apiserver), lists in their number of slices, and slices in
// their number of devices (claims.ReadSlice). A slice that an API server would not accept is
// ignored, with a line in the log, and its devices are not known. An answer that is not a list is
// an error, and what was known stays.
package resourceslices
