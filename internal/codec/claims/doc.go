// Package claims finds the devices of pods with ResourceClaims from manifests alone. The manifests
// are ResourceClaims, ResourceClaimTemplates, ResourceSlices, DeviceClasses and Nodes as kubectl
// prints them.
//
//	Objects.Add                        adds one object; a scheduler uses AddClaim and AddSlice
//	Objects.On(node)                   Resolver   for one Kubernetes node
//	Resolver.Pod(ctx, pod)             Resolved   the devices of each container, as request.Given
//
// A claim with an allocation has the devices of its allocation. Objects.Allocator allocates the
// other claims on the node; package allocation provides the scheduler's allocator. Pods must be
// resolved in the order in which they are admitted, because the devices of one pod are not free for
// the next. If a pod's claim comes from a template and the cluster has not created it yet, the
// resolver creates it. A program without an Allocator, such as the agent, resolves only claims with
// an allocation.
//
// A claim that cannot be resolved becomes a note of its pod, which names what is missing. Faults in
// objects are never errors: the pod is planned without these devices. Resolver.Pod does not panic
// on objects that no API server would accept.
//
// The NUMA nodes of a device come from its attribute resource.kubernetes.io/numaNode, which is an
// int or a list, or from the attribute names that drivers used before. If a device of a live
// machine has none of these attributes, its PCI address or its PCIe root determines its NUMA node.
// Otherwise the NUMA nodes of the device are unknown.
//
// A running agent uses the same rules:
//
//	ReadSlice, ReadMetadata            a ResourceSlice, a driver's metadata file (KEP-5304), with limits
//	PlacesOf(slices, node)             Places    where the devices of slices are
package claims
