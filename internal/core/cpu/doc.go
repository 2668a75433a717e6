// Package cpu decides which CPUs a container or a pod gets, by the rules of the static
// CPU policy (docs/rules/cpu.md).
//
// Take picks n CPUs from a set: packed, spread over cores, distributed over NUMA nodes or kept
// within an uncore cache, as the options require. Reserve uses it to pick the CPUs that the
// Kubernetes node keeps for itself. Allocate uses it for a request and starts with the NUMA nodes
// of a merged hint. Hints describes the NUMA nodes on which a request fits. CheckFullCores rejects
// requests that full-pcpus-only does not allow.
//
// Two types do the work. An allocator packs: it counts the free CPUs of each level (NUMA nodes,
// sockets, uncore caches, cores) and takes whole units before parts. A split divides a request
// evenly over NUMA nodes (distribute-cpus-across-numa); a table finds the best split.
//
// All functions are pure: the same machine, options and sets give the same result. A result is a
// subset of the available CPUs and has exactly the requested size; anything else is an error. Only
// a Behavior is an exception. CPUs that the machine does not have are ignored.
//
// If a rule uses an average of the whole machine (CPUs per core, R-CPU-3), this package does too,
// so that placements on hybrid machines stay the same. But without a Behavior it takes a
// unit as a whole only if all CPUs of that unit are free.
package cpu
