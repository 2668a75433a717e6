// Package devicefile reads a hand-written list of devices, so that people can plan for devices that
// they do not have. The file is YAML or JSON:
//
//	resources:
//	  nvidia.com/gpu:
//	  - {id: gpu0, numaNodes: 0}
//	  - {id: gpu1, numaNodes: 1, healthy: false}
//	  example.com/nic:
//	  - {prefix: nic, perNode: 1, numaNodes: 0-7}    # nic0 on NUMA node 0, nic1 on NUMA node 1, …
//	  example.com/switch:
//	  - {id: fabric, numaNodes: [0, 2-3]}            # one device, local to three NUMA nodes
//	  example.com/fuse:
//	  - {prefix: fuse, count: 100, numaNodes: []}    # fuse0 … fuse99, local to no NUMA node
//
// An entry describes one device with an id, or several devices whose ids consist of a prefix and a
// number that starts at 0. With count, there are count devices, each local to all of numaNodes.
// With perNode, there are perNode devices on each of numaNodes, in ascending order of the NUMA
// nodes. By default, healthy is true. Without numaNodes, it is not known where the device is, and
// answers about pods that ask for it have a note; an empty list means that it reports no NUMA node.
//
// Decoding is strict: unknown and repeated fields are errors. Errors name the file, the resource,
// the index of the entry (starting at 0) and the field. Bad input never causes a panic, and no file
// yields more than MaxDevices devices.
package devicefile
