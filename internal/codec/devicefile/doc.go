// Package devicefile reads a list of devices that people write, to plan for devices
// without having them. The file is YAML or JSON:
//
//	resources:
//	  nvidia.com/gpu:
//	  - {id: gpu0, numaNodes: 0}
//	  - {id: gpu1, numaNodes: 1, healthy: false}
//	  example.com/nic:
//	  - {prefix: nic, perNode: 1, numaNodes: 0-7}    # nic0 on node 0, nic1 on node 1, …
//	  example.com/switch:
//	  - {id: fabric, numaNodes: [0, 2-3]}            # one device, local to three nodes
//	  example.com/fuse:
//	  - {prefix: fuse, count: 100}                   # fuse0 … fuse99, local to no node
//
// An entry is one device with an id, or several whose ids are a prefix and a number from 0
// on: count of them, each local to all of numaNodes, or perNode of them on each of
// numaNodes, ascending by node. Left out, healthy is true and numaNodes none.
//
// Decoding is strict: unknown and repeated fields are errors. Errors name the file, the
// resource, the entry from 0 on and the field. Bad input never panics, and no file makes
// more than MaxDevices.
package devicefile
