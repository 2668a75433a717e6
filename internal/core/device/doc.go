// Package device decides which devices a container gets, and keeps the books of them
// (docs/rules/hints.md, section 5).
//
// Devices are neither counters nor a tree: they are names with a health and NUMA nodes,
// several or none. Three values say it all:
//
//   - Inventory is what there is: for each extended resource its devices. It never changes;
//   - Usage is which of them somebody holds; Take and Return make a new one;
//   - Reuse is what a pod's init containers leave to its later containers.
//
// Hints describes where a request fits, Allocate picks the devices. Both call a
// device on several NUMA nodes local to each of them, as a device plugin does that reports
// several. A device without NUMA node is local nowhere: it can be had, but not aligned.
package device
