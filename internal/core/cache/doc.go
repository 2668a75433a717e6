// Package cache divides the L3 caches and the memory bandwidth of a machine among classes.
//
// A class is what one container, or the containers that share the pool of a pod, has for itself:
// ways of each L3 cache that its CPUs use, and a part of the memory bandwidth there. The kernel
// calls it a class of service (resctrl). Whoever has no class is in the default class, which has
// what is left of every cache.
//
// # Which ways
//
// The ways of a class are contiguous in each cache, because most processors require that. No two
// classes have a way in common. The default class has contiguous ways as well: it begins with the
// ways that hardware also uses (shareable_bits), or with the highest ones, and it shrinks from
// there. So it always has these, and never less than Floor. Ways that hardware uses are in no other
// class: I/O would disturb it there, and the kernel does not allow a class of its own on them.
//
// A class gets the smallest run of free ways that has room for it, and of runs of the same size the
// lowest. The default class has the last run, so that it shrinks only if no other run has room. Of
// several classes that are placed together, the largest is placed first. This can fail where
// another order would not: ways are never moved, because a container would lose what it has in the
// cache.
//
// # Bandwidth
//
// The parts of the classes of one cache and the least limit of the default class add up to at most
// 100 %. What no class has is the limit of the default class, and of the classes that ask for ways
// only.
//
// # Ownership
//
// A Usage is a value: every change makes a new one. It knows the caches of the machine that have an
// online CPU. A class may have shares of others, which do not count until their CPUs are back.
package cache
