// Package device decides which devices a container gets, and accounts for them
// (docs/rules/hints.md, section 5).
//
// Devices are neither counters nor a tree. A device is a name with a health and any number of NUMA
// nodes. There are three values:
//
//   - Inventory is the devices of each extended resource. It never changes.
//   - Usage is the set of assigned devices. Take and Return make a new one.
//   - Reuse is the devices that a pod's init containers leave to its later containers.
//
// Hints describes where a request fits, and Allocate picks the devices. A device with several NUMA
// nodes is local to each of them, as for a device plugin that reports several. A device without
// NUMA nodes is local to none. It can be assigned but not aligned.
//
// # Given devices
//
// Most devices on a Kubernetes node are chosen elsewhere, before Paddock decides about a pod. The
// kubelet chooses the devices of device plugins, and the scheduler chooses the devices of
// ResourceClaims. These devices come with the request (request.Given) and are part of it. No
// Inventory and no Usage has them. Nothing is chosen, and nothing has to be taken or returned.
// Claims can share devices, so two containers or pods with the same device are not an error.
//
// Given devices matter only for alignment. GivenHints returns the hint set of all given devices of
// one resource or driver. It corresponds to what the kubelet's device manager generates again for
// devices that are already allocated (docs/rules/devices.md). It is one more set for the merge, so
// every policy and scope treats given devices like CPUs and memory. Its masks are all masks that
// are near every device. A device near one NUMA node makes it a required NUMA node of the set. A
// device near several adds a set of NUMA nodes to touch. Nothing is counted, because these devices
// are never short. Which masks are preferred depends on all devices of the resource or driver,
// whoever has them. request.Stock counts them by NUMA nodes, so the request is complete without an
// inventory, and two nodes with the same request and state make the same decision.
//
// A device whose NUMA nodes are not known is ignored. Nothing can be aligned with it, and it is no
// reason to reject a pod because of another device (R-DEV-4).
package device
