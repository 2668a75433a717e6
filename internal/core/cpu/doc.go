// Package cpu decides which CPUs a container or a pod gets, by the rules of the static
// CPU policy (docs/rules/cpu.md).
//
// Take picks n CPUs out of a set: packed, spread over cores, distributed over NUMA
// nodes or kept within an uncore cache, as the options say. Everything that hands out
// CPUs rests on it: Reserve, the node's own share at start, and Allocate, which prefers
// the NUMA nodes of a merged hint. Family says on which NUMA nodes a request fits;
// CheckFullCores refuses what full-pcpus-only does not allow.
//
// All functions are pure: the same machine, options and sets give the same answer. A
// result is a subset of what was available and has exactly the wanted size; anything
// else is an error. Sets may hold CPUs that the machine does not have: these are
// ignored.
//
// Where the rules rest on averages of the whole machine (CPUs per core, R-CPU-3), so
// does this package, as on hybrid machines placements shall stay the same; but a
// unit is never handed out as a whole unless all of its own CPUs are free.
package cpu
