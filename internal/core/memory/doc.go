// Package memory decides from which NUMA nodes a container's or pod's memory and huge
// pages come, and keeps the books (docs/rules/memory.md).
//
// Memory is not individuals but counters: per NUMA node and type how much there is, how
// much the system keeps, how much is held. Three values say it all:
//
//   - Capacity, made once of a machine and the reserved memory, never changes;
//   - Usage is what is held; Charge and Release return a new one. It follows from the blocks that are
//     held, whatever came and went before, so that a restart changes nothing;
//   - Block is what somebody holds: so many bytes of a type on a set of NUMA nodes.
//
// The one rule that is not arithmetic is that of groups: memory held on several NUMA
// nodes makes them a group, and until the last such block is released these nodes serve
// no other group and no single-node request (R-MEM-20…22). It is why a hint set of fitting
// masks is a few explicit masks (single nodes and groups in use) beside the free nodes, among which
// everything is allowed (hint.Set).
package memory
