// Package cpu decides which CPUs a container or a pod gets, by the rules of the static
// CPU policy (docs/rules/cpu.md).
//
// Take picks n CPUs of a set: packed, spread over cores, distributed over NUMA nodes or
// kept within an uncore cache, as the options require. Reserve and Allocate use it: Reserve for
// the CPUs that the Kubernetes node keeps for itself, Allocate for a request, first on the NUMA
// nodes of a merged hint. Hints describes the NUMA nodes on which a request fits. CheckFullCores
// rejects what full-pcpus-only does not allow.
//
// Two types do the work. An allocator packs: it counts the free CPUs of each level (NUMA nodes,
// sockets, uncore caches, cores) and takes whole units before parts. A split divides a request
// evenly over NUMA nodes (distribute-cpus-across-numa); a table finds the best split.
//
// All functions are pure: the same machine, options and sets give the same result. A result is a
// subset of the available CPUs and has exactly the wanted size; anything else is an error. CPUs
// that the machine does not have are ignored.
//
// Where the rules use averages of the whole machine (CPUs per core, R-CPU-3), this package does
// too, so that placements on hybrid machines stay the same. But a unit is never taken as
// a whole unless all of its own CPUs are free.
package cpu
