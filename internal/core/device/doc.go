// Package device decides which devices a container gets, and accounts for them
// (docs/rules/hints.md, section 5).
//
// Devices are neither counters nor a tree: a device is a name with a health and any number of NUMA
// nodes. There are three values:
//
//   - Inventory is the devices of each extended resource. It never changes;
//   - Usage is which of them are assigned; Take and Return make a new one;
//   - Reuse is what a pod's init containers leave to its later containers.
//
// Hints describes where a request fits, Allocate picks the devices. A device on several NUMA nodes
// is local to each of them, as for a device plugin that reports several. A device without NUMA
// nodes is local to none: it can be assigned, but not aligned.
//
// # Given devices
//
// Most devices on a node are chosen by others, before the node decides about a pod: the kubelet
// chooses those of device plugins, the scheduler those of ResourceClaims. They come with the
// request (request.Given), and are part of it: no Inventory and no Usage has them, nothing is
// chosen, and nothing has to be taken or returned. Claims can share them, so two containers or pods
// with one device are no error.
//
// They matter for alignment only. GivenHints makes the hint set of all given devices of one
// resource or driver: what the kubelet's device manager regenerates for devices that are allocated
// already (docs/rules/devices.md). It is one more set for the merge, so every policy and scope
// decides with given devices as it does with CPUs and memory. Its masks are all that are near every
// device: a device near one NUMA node is a required NUMA node of the set, a device near several is
// a set of NUMA nodes to touch. Nothing is counted, because these devices are never short. Which
// masks are preferred depends on all devices of the resource or driver, whoever has them:
// request.Stock counts them by NUMA nodes, so that the request is complete without an inventory,
// and two nodes with the same request and state decide the same.
//
// A device whose NUMA nodes are not known is left out: nothing can be aligned with it, and no other
// device is a reason to reject it (R-DEV-4).
package device
