// Package podres answers the PodResources API of the kubelet for the pods that Paddock
// placed, and asks it: who holds which CPUs, memory and devices.
//
// The server speaks k8s.io/kubelet v0.37 on a unix socket: v1 List, Get and
// GetAllocatableResources, and v1alpha1 List (R-API-2). Every answer is a function of one
// immutable node.State, so that it is consistent in itself and a call waits for nobody:
//
//   - pods are those that hold a grant, ascending by namespace and name. A pod without
//     exclusive resources holds an empty grant and is listed. A pod that ended is not; one
//     that ended and whose release is not durable yet is, as nobody else may have its CPUs;
//   - containers are sidecars, then app containers, in the order of the pod's spec (R-API-11);
//   - a container shows what is its own alone. In the pod's shared pool or the node's it shows
//     nothing (R-37-3), for each resource by itself: a container with a fractional cpu
//     request may well have memory of its own (R-DEM-31);
//   - a pod shows the pool that it holds as a pod, its containers' parts included (R-37-3).
//     The pod's shared pool is that less the union of its containers';
//   - CPUs of pods are those that they are assigned, also while they are offline, as the kubelet
//     tells them: they are not free, and the pod has them again when they are back. A client that
//     wants to run threads on them asks the container's cgroup (cpuset.cpus.effective), or takes
//     those that are online. GetAllocatableResources has online CPUs only;
//   - ids ascend, so that equal states give equal bytes.
//
// One token bucket is for all calls (R-API-3). Access is by the file: the socket has mode
// 0660, a directory that Listen makes 0750.
package podres

// DefaultSocket is where the agent listens unless it is told otherwise, and where clients look.
const DefaultSocket = "/run/paddock/podresources.sock"
