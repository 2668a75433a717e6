// Package resctrl decides what the groups of the kernel's resctrl must contain so that classes have
// their ways of the L3 caches and their part of the memory bandwidth (Linux,
// Documentation/filesystems/resctrl.rst).
//
// It is a value: it reads no file. A group is a directory with a file schemata, and a class of
// internal/core/cache is a group with a name of its own (PoolName, ContainerName). The default
// group is the root directory, and its name here is empty. Groups with other names belong to
// others. They are never changed, and they are reported if they have ways in common with a class.
//
// # What a group contains
//
// Want is a function of what the default group would contain without Paddock, and of the Division
// that the agent publishes. A group has the ways and the limit of its class. In a cache in which
// its class has no share, it has those of the default group. The default group has what is left of
// a cache of which a class has ways or bandwidth, and of other caches what it would have without
// Paddock.
//
// # Order
//
// Steps are the writes from what is there to what is wanted. None of them gives a group a way that
// another one has, if one of the two has it for itself:
//
//  1. Groups that nothing needs are removed. Their tasks are then in the default group.
//  2. The default group shrinks, then the others: to what they have now and also must have.
//  3. Groups get what they must have, and new ones are made.
//  4. The default group grows, then the others where they share its ways.
//
// A group that would shrink to ways that no processor accepts shares the ways of the default group
// until the third step, and the default group gets its ways after that. Between the two operations
// that make a group, the kernel gives it every way that is not exclusive (fs/resctrl/rdtgroup.c,
// rdtgroup_init_cat), but it has no tasks yet.
package resctrl
