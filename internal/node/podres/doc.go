// Package podres serves the kubelet's PodResources API for the pods that Paddock manages, and has a
// client: which pods have which CPUs, memory and devices.
//
// The server implements k8s.io/kubelet v0.37 on a unix socket: v1 List, Get and
// GetAllocatableResources, and v1alpha1 List (R-API-2). Every answer is a function of one immutable
// node.State, so it is consistent, and no call waits for another:
//
//   - pods are those with a grant, ascending by namespace and name. A pod without exclusive resources
//     has an empty grant and is listed. A pod that ended is not listed, unless its release is not
//     durable yet: no other pod may have its CPUs;
//   - containers are sidecars, then app containers, in the order of the pod's spec (R-API-11);
//   - a container shows what it alone has. In the pod shared pool or the node shared pool it shows
//     nothing (R-37-3). This is separate for each resource: a container with a fractional cpu request
//     may have memory of its own (R-DEM-31);
//   - a pod shows its pool, including the slices of its containers (R-37-3). The pod shared pool is
//     the pool without these slices;
//   - CPUs of pods are listed even while they are offline, as in the kubelet: they are not free, and
//     the pod has them again when they are back. A client that starts threads on them should read the
//     container's cgroup (cpuset.cpus.effective). GetAllocatableResources has online CPUs only;
//   - dynamic resources are the devices of the ResourceClaims that a container uses (KEP-3695). A
//     container that names one request of a claim shows the devices of this request only, and each
//     device shows its own CDI devices only. The size of an answer is linear in the devices. A device whose
//     requests are not known is shown for every request, and a claim whose devices are not known is not
//     shown;
//   - ids ascend, so that equal states give equal bytes;
//   - a client that sends the header paddock-places gets a trailer with the NUMA nodes of all devices, and
//     which of them are remote, one that sends paddock-moves gets one with the moves of pods that are under
//     way or were made: the messages have no field for that. paddock pods is such a client.
//
// The KEP's feature gates, KubeletPodResourcesGet and KubeletPodResourcesDynamicResources, are
// locked on from Kubernetes 1.36 on, and so are both parts here.
//
// All calls share one token bucket (R-API-3). The file controls access: the socket has mode 0660,
// and a directory that Listen makes has 0750.
package podres

// DefaultSocket is where the agent listens by default, and where clients look.
const DefaultSocket = "/run/paddock/podresources.sock"
