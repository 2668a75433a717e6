// Package kubeletdevices asks the kubelet which devices the containers of a pod have: those of
// device plugins, with their NUMA nodes, and those of ResourceClaims.
//
// The kubelet allocates the devices of device plugins at admission, and prepares ResourceClaims
// before it asks the runtime for a sandbox. So when a sandbox is created, one Get at the kubelet's
// PodResources socket (v1) names all devices of the pod. A kubelet without Get is asked by List.
//
// Whatever answers at the socket, a call ends within its time and in bounded memory, with an error
// or with a value: the answer is limited in bytes, and it is read field by field, so that an answer
// of many empty messages takes no more memory than one of few large ones. Only what is different is
// kept.
//
// The package corrects two faults of the kubelet (1.36.3, 1.37.1). The devices of one driver in a
// claim list the CDI devices of all devices before them again: these are removed. And the entries
// of a claim can be repeated without a limit (kubernetes#141335): each device is kept once. A
// container that names one request of a claim is listed with the whole claim, and the answer does
// not name requests: that cannot be corrected here.
//
// The answer has no NUMA nodes of a claim's devices.
package kubeletdevices
