// Package nri drives containerd and CRI-O through the Node Resource Interface.
//
// The runtime asks before it acts, and the answers contain what Paddock decided:
//
//	RunPodSandbox    the whole pod is planned, and durable, before any container exists; a rejection
//	                 fails the sandbox with the reason and the account
//	CreateContainer  cpuset.cpus, cpuset.mems and the quota of the container, and in the same reply the
//	                 updates of every container whose CPUs changed; containers that shrink come first
//	UpdatePodSandbox the whole resize of a pod is decided, and durable, before the kubelet changes a cgroup; an error
//	                 rejects it, and the user finds the reason in the condition PodResizeInProgress
//	UpdateContainer  the same, if no such question came before; the reply has our CPUs, memory nodes and quota in place
//	                 of the kubelet's, in the same write
//	StopContainer    nothing is released; the reply contains updates that wait
//	Synchronize      the desired settings are compared with the cgroups of everything that runs
//
// StartContainer and the requests after a creation and a start prove what is known. If they name a
// container that is not known, it was created without Paddock.
//
// # The edge of the loop
//
// The control loop is a value: see package control. One goroutine has it, edge: it feeds it with
// events and carries its actions out, and nothing else reaches the loop's data. No event waits, and
// one that takes more than 100 ms is logged and counted by its name. What waits for the source of
// pods, the disk or the kernel is a job, in a goroutine of its own, and decides nothing. A session
// translates the requests of one connection into events, and the answers into replies. No code
// waits while it has a lock.
//
// # Estimates
//
// If the source of pods does not list a pod that starts, and Config.Estimate agrees, this package
// estimates the pod's request from the cgroup numbers in RunPodSandbox. Such a pod gets one pool of
// this size for all its containers, or runs on the node shared pool. The state marks the pod as
// estimated. If the source lists the pod later, the pod keeps its place.
//
// For a runtime, an empty cpuset.cpus or cpuset.mems means "no change". This package never sends
// one and rejects a pod that would need one. The cgroup file system, which the jobs read, is
// the truth about what a container has.
package nri
