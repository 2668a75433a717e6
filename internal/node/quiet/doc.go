// Package quiet decides what the kernel's files must contain so that nothing but its own threads
// runs on an exclusive CPU.
//
// It is a value: it reads no file, and its only clock is the argument of a call. One round of
// paddock quiet is
//
//	Plan(Situation) ──► Records   what each file had before, to be saved first
//	                ──► Writes    in their order
//	carry them out  ──► Outcome
//	Plan.After      ──► Records and Troubles for the next round
//
// # What a file must contain
//
// Want is a function of the machine, the containers with their wishes, the policy, and of what each
// file would have without Paddock, its base. A list of CPUs loses the CPUs that are to be quiet. If
// no online CPU is left, it is the online CPUs that are not quiet. All other files have one value
// that a container asked for, or their base.
//
// # What a file had before
//
// A Record is saved before the first write to a file. It has the base, the last value that was
// written and read again (Wrote), and the value that is about to be written (Next). A process that
// is killed at any moment leaves one of the three in the file. Everything else was written by
// another program, and becomes the base: a program that sets a file meanwhile keeps its value,
// without the quiet CPUs, and gets it back when the container has ended. A record ends when the
// file has its base again, or is gone.
//
// # Order
//
// The Writes of one plan are in this order. CPUs become quiet before anything is given back, and
// the CPUs that a container has left are given back when its cgroup no longer has them.
//
//  1. Lists of CPUs that lose CPUs; limits of C-states, governors and frequencies that are asked for.
//  2. Partitions end, the deepest first.
//  3. cpuset.cpus.exclusive grows, from the root down, as a parent must have what a child is given.
//  4. cpuset.cpus.exclusive gets its final value, from the leaves up.
//  5. Partitions begin.
//  6. Lists of CPUs that get CPUs back; limits, governors and frequencies that are no longer asked for.
//  7. Groups of resctrl, in the order of package resctrl.
//
// # Who changes it back
//
// A file that does not keep its value is written again, at most Policy.MostFights times; then it is
// reported and left for retryAfter. A file that rejects a value is tried again after a time that
// doubles. An interrupt that the kernel manages rejects every value: it is reported once and left.
package quiet
