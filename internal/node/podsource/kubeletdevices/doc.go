// Package kubeletdevices asks the kubelet which devices the containers of a pod have: those of
// device plugins, with their NUMA nodes, and those of ResourceClaims.
//
// The kubelet allocates the devices of device plugins at admission, and prepares ResourceClaims
// before it asks the runtime for a sandbox. So when a sandbox is created, one Get at the kubelet's
// PodResources socket (v1) returns all devices of the pod. If a kubelet has no Get, the package
// uses List.
//
// GetAllocatableResources has the healthy devices of device plugins that no pod has, too. An
// observing agent needs their NUMA nodes, which no file of the kubelet has.
//
// Whatever answers at the socket, a call ends within its time and in bounded memory, with an error
// or with a value. The answer is limited in bytes. It is read field by field, so that an answer of
// many empty messages takes no more memory than one of few large ones. Repeated values are stored
// once.
//
// The package corrects two faults of the kubelet (1.36.3, 1.37.1). First, the devices of one driver
// in a claim list the CDI devices of all devices before them again. The package removes these.
// Second, the entries of a claim can be repeated without a limit (kubernetes#141335). The package
// keeps each device once. A third fault cannot be corrected here: a container that names one
// request of a claim is listed with the whole claim, and the answer does not name requests.
//
// The answer has no NUMA nodes for the devices of a claim.
package kubeletdevices
