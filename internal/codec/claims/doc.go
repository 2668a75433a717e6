// Package claims finds the devices of pods with ResourceClaims, from manifests alone:
// ResourceClaims, ResourceClaimTemplates, ResourceSlices, DeviceClasses and Nodes, as kubectl
// prints them.
//
//	Objects.Add                        takes an object, one after the other; AddClaim, AddSlice for a scheduler
//	Objects.On(node)                   Resolver   for one Kubernetes node
//	Resolver.Pod(ctx, pod)             Resolved   the devices of each container, as request.Given
//
// A claim with an allocation has the devices of its allocation. A claim without one is allocated on
// the node by Objects.Allocator, for which package allocation has the scheduler's. Pods come in the
// order in which they are admitted: the devices of one pod are not free for the next. A claim of a
// template that no cluster has made yet is made here, for its pod. A program without an Allocator,
// as the agent's, resolves only claims with an allocation.
//
// A claim that cannot be resolved is a note of its pod, which names what is missing. Nothing is an
// error that is wrong with objects: the pod is planned without these devices. Resolve does not
// panic on objects that no API server would accept.
//
// NUMA nodes come from the attribute resource.kubernetes.io/numaNode, an int or a list, or from the
// names that drivers used before. On a live machine the PCI address or the PCIe root of a device
// without one of them leads to its NUMA node. Otherwise it is near NUMA nodes that are not known.
//
// A running agent uses the same rules:
//
//	ReadSlice, ReadMetadata            a ResourceSlice, a driver's metadata file (KEP-5304), with limits
//	PlacesOf(slices, node)             Places    where the devices of slices are
package claims
