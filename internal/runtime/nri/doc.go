// Package nri drives containerd and CRI-O through the Node Resource Interface.
//
// The runtime asks before it acts, and the answers carry what Paddock decided:
//
//	RunPodSandbox    the whole pod is planned, and durable, before any container exists; a rejection
//	                 fails the sandbox with the reason and the account
//	CreateContainer  cpuset.cpus, cpuset.mems and the quota of the container, and in the same reply the
//	                 updates of every container whose CPUs changed; containers that shrink come first
//	UpdateContainer  what a resize asks for, with our CPUs, memory nodes and quota in place of its own
//	StopContainer    nothing is given back; the reply carries updates that wait
//	Synchronize      desired against what the cgroups show, for everything that runs
//
// # One event loop
//
// One goroutine, the loop, owns everything that is known of the runtime. Its methods are the events: a
// request of the runtime (enter, create, created, resize, end, leave, pinned, observe, synchronise), the
// outcome of a job (listed, landed), a timer (tick, overdue), the connection (connected, disconnected).
// No event waits. What may wait runs outside of the loop: a request waits for the source of pods and for the
// disk in its own goroutine, until its deadline, and jobs read cgroups, ask the source of pods and write
// quotas. No lock is held anywhere while something waits.
//
// # What waits, and for how long
//
//	a hook            until Config.Timeout or half of the runtime's own timeout, whichever is less. Then it
//	                  fails with the reason, and the kubelet tries again. A durable pod needs
//	                  neither the disk nor the source of pods: it is answered within milliseconds
//	a job             Config.Timeout for the source of pods, Config.Period for the disk
//	an update that    as long as the runtime asks for nothing else, since it has the runtime's lock; in one that does
//	was not asked for 10 s, then the connection is closed, and the runtime synchronises the next one
//	a connection      15 s until the runtime synchronises; then the next attempt, at most 1 s later
//
// # What is known of a container
//
//	creating   the reply is given; no update reaches the container until the runtime reports it
//	updating   a reply or an update that changes it is under way
//	unknown    something under way failed, or its outcome is open
//	settled    it has what the loop believes
//
// While a container is not settled, it counts as having everything that it had or was told. So no
// container is created, or moved, onto CPUs that another one may still own, and none that is to own its CPUs
// onto any that another may still use. Where an update in the same reply cannot make room for certain, the creation
// fails and is tried again.
//
// This rests on two properties of containerd and CRI-O: they ask, and carry out the reply, under one lock,
// so that the next request proves that the last reply was carried out; and an update that was not asked
// for waits for that lock. It may therefore be carried out after a reply that was decided later. What
// the update gives stays counted until it has landed.
//
// # Release
//
// A pod's grant ends when the pod is gone from its source and no container of it runs; where the source
// cannot tell, when its sandbox was removed and no new one followed for a while. This is looked at
// after a pod ends, before a pod is rejected, and before a runtime that synchronises gets its answer.
//
// # Runtimes that take no unsolicited updates
//
// An update that was not asked for can hang runtimes whose NRI is older than 0.12.1. They get theirs in
// replies. If they ask for nothing for some seconds while an update waits, the connection is closed: the reply to
// the next Synchronize carries it.
//
// # Another manager
//
// Containers that come with a cpuset belong to another manager, the kubelet's static policy as a rule. While
// there is one, this package stands aside: it answers, changes nothing, and Status says why.
//
// # Estimates
//
// Where the source of pods does not list a pod that starts, and Config.Estimate agrees, its request is
// estimated from what RunPodSandbox shows of its cgroup. Such a pod gets as a whole what its numbers ask for,
// one pool for all its containers, or runs on the node shared pool; it is marked in the state, and it
// is not moved when it is listed later.
//
// An empty cpuset.cpus or cpuset.mems means "no change" to a runtime. None is ever sent; a pod that
// would need one is rejected. The cgroup file system, read by the loop's jobs, has the last word on what a container has.
package nri
