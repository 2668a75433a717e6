// Package nri drives containerd and CRI-O through the Node Resource Interface.
//
// The runtime asks before it acts, and Paddock's decisions are in the answers:
//
//	RunPodSandbox    plans the whole pod and makes the plan durable before any container exists; a rejection
//	                 fails the sandbox and reports the reason and the account
//	CreateContainer  returns cpuset.cpus, cpuset.mems and the quota of the container and, in the same reply, the
//	                 updates of every container whose CPUs changed; containers that shrink come first
//	UpdatePodSandbox decides the whole resize of a pod and makes it durable before the kubelet changes a cgroup; an
//	                 error rejects the resize, and the pod's condition PodResizeInProgress shows the reason
//	UpdateContainer  does the same if no UpdatePodSandbox came before; the reply replaces the kubelet's CPUs, memory
//	                 nodes and quota with Paddock's, in the same write
//	StopContainer    releases nothing; the reply contains the updates that wait
//	Synchronize      compares the desired settings with the cgroups of everything that runs
//
// StartContainer and the requests after a creation and after a start confirm what is known. A
// container that they name and that is not known was created without Paddock.
//
// # The edge of the loop
//
// The control loop is a value; see package control. One goroutine, edge, owns it: it feeds events
// to the loop and carries out the loop's actions. Nothing else accesses the loop's data. Handling
// an event never blocks. An event that takes more than 100 ms is logged and counted by its name.
// Work that waits for the source of pods, the disk or the kernel is a job: it runs in its own
// goroutine and decides nothing. A session translates the requests of one connection into events,
// and the answers into replies. No code waits while it has a lock.
//
// # Estimates
//
// If the source of pods does not list a pod that starts, and Config.Estimate agrees, this package
// estimates the pod's request from the cgroup numbers in RunPodSandbox. Such a pod gets one pool of
// this size for all its containers, or runs on the node shared pool. The state marks the pod as
// estimated. If the source lists the pod later, the pod keeps its place.
//
// For a runtime, an empty cpuset.cpus or cpuset.mems means "no change". This package never sends
// one and rejects a pod that would need one. The cgroup file system, which the jobs read, is the
// truth about what a container has.
package nri
