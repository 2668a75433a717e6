// Package kernelfiles reads the files of the kernel that show who runs on which CPU: its counters
// of interrupts, its tasks, the cgroups of containers, and the settings that decide about them
// (proc(5); Documentation/core-api/irq/irq-affinity.rst; admin-guide/cgroup-v2.rst;
// networking/scaling.rst; core-api/workqueue.rst; filesystems/resctrl.rst).
//
// It changes nothing. The directories are parameters, so that tests read recorded trees. Every file
// may be missing, empty or unreadable: what is missing is an entry in Seen.NotSeen, and everything
// else is still read. The work is bounded: mostTasks tasks, mostRows rows, and files of mostBytes.
package kernelfiles
