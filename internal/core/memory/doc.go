// Package memory decides which NUMA nodes provide the memory and huge pages of a container or pod,
// and accounts for them (docs/rules/memory.md).
//
// Memory is represented by counters: how much of each type each NUMA node has, how much of it is
// reserved for the system, and how much is assigned. There are three values:
//
//   - Capacity is computed once from a machine and the reserved memory. It never changes.
//   - Usage is the assigned memory. Charge and Release return a new Usage. It depends only on the
//     blocks that are assigned now, so a restart changes nothing. Only the Usage of a kubelet depends
//     on its history, as the kubelet's file does (Q-33; kept.go).
//   - Block is memory of a container or pod: a number of bytes of one type on a set of NUMA nodes.
//
// Only one rule is more than arithmetic, the rule of groups. Memory on several NUMA nodes turns
// them into a group. Until the last such block is released, these NUMA nodes serve neither another
// group nor requests on a single NUMA node (R-MEM-20…22). So the hint set of fitting masks consists
// of a few explicit masks (single NUMA nodes and groups in use) and all sets of unused NUMA nodes
// (hint.Set).
package memory
