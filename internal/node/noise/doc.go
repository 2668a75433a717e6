// Package noise compares what the kernel counted on CPUs at two moments, and reports who
// interrupted the containers that have these CPUs for themselves.
//
// It is pure: Compare is a function of two snapshots, of the tasks that were seen in between, and
// of the settings of the kernel. internal/node/kernelfiles reads all of these.
//
// # Measured and estimated
//
// The kernel counts interrupts and softirqs, and does not count the time of each. Their cost is
// the count multiplied by a weight of this package (cost.go), so that sources can be sorted. It is
// an order of magnitude, and every source shows whether its cost is measured or estimated. The CPU
// time of a task is measured (schedstat, in nanoseconds) if the task can run on the container's
// CPUs only. Otherwise it is the time between two looks after which the task was seen on such a
// CPU, and is estimated. The time for which a quota throttled a container is measured.
//
// # Counters
//
// A counter of /proc/interrupts has 32 bits and wraps. A counter that falls by another amount was
// reset, and what it has now is counted. A CPU that is offline at one of the two moments has no
// counts, and the report names it. A task is identified by its ID and its start time, because IDs
// are used again.
package noise
