// Package memory decides from which NUMA nodes a container's or pod's memory and huge pages come,
// and accounts for them (docs/rules/memory.md).
//
// Memory is counters: how much of each type each NUMA node has, how much is reserved for the
// system, and how much is assigned. There are three values:
//
//   - Capacity, made once of a machine and the reserved memory, never changes;
//   - Usage is what is assigned; Charge and Release return a new one. It depends only on the blocks
//     that are assigned now, so a restart changes nothing;
//   - Block is what a container or pod has: a number of bytes of a type on a set of NUMA nodes.
//
// The one rule that is not arithmetic is that of groups: memory on several NUMA nodes makes them a
// group, and until the last such block is released these NUMA nodes serve no other group and no
// single NUMA node (R-MEM-20…22). So a hint set of fitting masks is a few explicit masks (single
// NUMA nodes and groups in use) and all sets of the unused NUMA nodes (hint.Set).
package memory
