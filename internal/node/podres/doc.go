// Package podres serves the kubelet's PodResources API for the pods that Paddock manages, and
// provides a client. The API shows which CPUs, memory and devices each pod has.
//
// The server implements k8s.io/kubelet v0.37 on a unix socket: v1 List, Get and
// GetAllocatableResources, and v1alpha1 List (R-API-2). Every answer is a function of one immutable
// node.State, so it is consistent, and no call waits for another:
//   - pods are those with a grant, ascending by namespace and name. A pod without exclusive resources
//     has an empty grant and is listed. A pod that ended is listed only until its release is durable,
//     because until then no other pod may have its CPUs;
//   - containers are sidecars, then app containers, in the order of the pod's spec (R-API-11);
//   - a container shows only what it has exclusively. In the pod shared pool or the node shared pool it
//     shows nothing (R-37-3). This is separate for each resource: a container with a fractional cpu
//     request may have memory of its own (R-DEM-31);
//   - a pod shows its pool, including the slices of its containers (R-37-3). The pod shared pool is
//     the pool without these slices;
//   - CPUs of pods are listed even while they are offline, as in the kubelet: they are not free, and
//     the pod has them again when they are back. A client that starts threads on them should read the
//     container's cgroup (cpuset.cpus.effective). GetAllocatableResources has online CPUs only;
//   - dynamic resources are the devices of the ResourceClaims that a container uses (KEP-3695). A
//     container that names one request of a claim shows the devices of this request only, and each
//     device shows its own CDI devices only. The size of an answer is linear in the number of devices.
//     A device whose requests are not known is shown for every request, and a claim whose devices are
//     not known is not shown;
//   - ids ascend, so that equal states give equal bytes;
//   - a client that sends the header paddock-places gets a trailer with the NUMA nodes of all devices
//     and which of them are remote. A client that sends paddock-moves gets one with the moves of pods
//     that are in progress or were made. The messages have no fields for these. paddock pods is such a
//     client.
//
// The KEP's feature gates, KubeletPodResourcesGet and KubeletPodResourcesDynamicResources, are
// locked to true from Kubernetes 1.36 on. So both features are always on here.
//
// All calls share one token bucket (R-API-3). File modes control access: the socket has mode 0660,
// and a directory that Listen creates has mode 0750.
package podres

// DefaultSocket is the socket on which the agent listens, and to which clients connect, by default.
const DefaultSocket = "/run/paddock/podresources.sock"
