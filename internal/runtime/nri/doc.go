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
// # One event loop
//
// One goroutine, the loop, owns everything that is known about the runtime. Its methods are the events: a
// request of the runtime (enter, create, created, started, resizeContainer, end, leave, pinned, observe, synchronise), the
// outcome of a job (listed, landed, resized), a timer (tick, overdue, lift), the connection (connected, disconnected).
// No event waits. Work that may wait runs outside the loop: a request waits for the source of pods and for
// the disk in its own goroutine, until its deadline, and jobs read cgroups, ask the source of pods and write
// quotas. No code waits while it has a lock.
//
// # What waits, and for how long
//
//	a hook            until Config.Timeout or half of the runtime's own timeout, whichever is less. Then it
//	                  fails with the reason, and the kubelet tries again. A durable pod needs
//	                  neither the disk nor the source of pods: it is answered within milliseconds
//	the devices of    half of the hook's time, beside the source of pods, and only a pod that asks for devices. Then it is
//	others            tried again, or, under a policy that admits pods that are not aligned, admitted without its
//	                  devices; it keeps the reason for its account
//	a job             Config.Timeout for the source of pods, Config.Period for the disk
//	an unsolicited    as long as the runtime sends no other request, because the update has the runtime's lock. If
//	update            other requests come, 10 s. Then the connection is closed, and the runtime synchronises the next one
//	a connection      15 s until the runtime synchronises; then the next attempt, at most 1 s later
//
// # The phases of a container
//
//	creating   the reply is given; an update may not reach the container until it runs
//	updating   a reply or an update that changes it is under way
//	unknown    something under way failed, or its outcome is open
//	settled    it has the setting that the loop has noted
//
// While a container is not settled, it counts as having every setting that it had and every setting that was
// sent for it. So no container is created on, or moved to, CPUs that another one may still own, and no
// container gets CPUs of its own that another one may still use. If no update in the same reply is certain
// to make room, the creation fails and is tried again.
//
// This depends on two properties of containerd and CRI-O. They ask, and apply the reply, under one lock, so
// the next request proves that the last reply was applied. And an unsolicited update waits for that lock, so
// it may be applied after a reply that was decided later. The CPUs in the update stay counted until it has
// landed.
//
// # Release
//
// A grant ends when its pod is gone from the source and no container of the pod runs. If the source does not
// know the pod, the grant ends when the sandbox was removed and no new one followed for a while. The loop
// checks this after a pod ends, before it rejects a pod, and before it answers a runtime that synchronises. If the source
// does not answer when a pod is to be rejected, the pod is not rejected: it will be tried again.
//
// # Resizes
//
// A message about a resize has numbers: of the pod as a whole, or of one container, for memory first and then for CPUs.
// What the pod wants as a whole is in the kubelet's list of pods, which is asked at the first message that the grant
// does not explain. The list has the pod's specification, and the kubelet carries out the one that it has accepted
// last. So the numbers must be those of the list. If they are of neither the list nor the grant, or if only some
// are and the list shows that the kubelet has not accepted its request (PodResizePending), the answer is an error: try
// again. What is accepted later is never given before.
//
// Engine.Resize decides about the whole request, and what it decides is durable before the answer. From then on it is a
// part of the state, and the comparison gives each container what it should have: in the reply to the kubelet's own change
// of the container, in later replies and rounds, or, after a crash, at the next start. A container that grows has less
// than its grant until then, and no container gets what one that shrinks has not left. A container with CPUs of its own
// is left to the kubelet for 5 s after the decision: the kubelet changes it in any case.
//
// The kubelet writes the pod's CFS quota after our answer, also where the pod should have none: the quota of a pod that is
// being resized is looked at four times in a second.
//
// A runtime that does not forward UpdatePodSandbox asks about containers only, and not at all about a pool. The loop
// finds the rest in the list, after a while, and Status has the reason why resizes are not decided in advance.
//
// # Runtimes that take no unsolicited updates
//
// An unsolicited update can hang a runtime whose NRI is older than 0.12.1. Such a runtime gets its updates in
// replies. If it sends no request for some seconds while an update waits, the connection is closed: the reply
// to the next Synchronize contains the update.
//
// # Moves
//
// A pod whose grant has two places in the published state is being moved (docs/rules/moves.md). The state does not
// say how far: each move has a step here, during shows the loop the state with the pod in that step, and everything
// above is then the same as for any other change: what a container should have, who is in its way, in which order.
//
//	widened    the old CPUs, the memory nodes of both places. It lasts for MovesConfig.Notice at least
//	switched   the new CPUs, as soon as no other container may still run on them
//	narrowed   the memory nodes of the new place. Then the state gets the new place alone
//	returned   the old CPUs and memory nodes, if a step fails. Then the state gets the old place alone
//
// A step ends when every container of the pod is settled with the step's setting, and its cgroup shows that, after
// "narrowed" also memory.numa_stat. A step has 30 s, and 4 s more for each GiB of memory that moves:
//
//	a stalled write of a cgroup      the update waits in the runtime, for 10 s at most if other requests come. After the
//	                                 time of the step the move is returned; the containers that cannot be updated keep
//	                                 both places assigned until they are
//	a lost update                    the next round sends it again
//	pages that stay where they are   the step does not end, and the move is returned
//	a container that ends            the others decide; one that starts meanwhile gets the setting of the step
//	a pod that ends                  its grant is released with both places
//	a state that cannot be written   begin: nothing changes. end: it is tried again each round; both places stay assigned
//	a restart of the agent           the state has both places. The move goes on from "widened", or from "switched" if a
//	                                 container has CPUs of the new place alone
//	a restart of the Kubernetes node the same, without containers: the new place is free of the old, and the pod gets it
//	a missing connection             nothing moves; the time of the step runs
//
// While a pod is being moved, its containers can have the CPUs of either place, so neither is ever another pod's.
// makeRoom looks for moves when a pod would be rejected, Carry makes those of an operator. One set is made at a time,
// and only by a runtime that takes unsolicited updates.
//
// # Another manager
//
// Containers that come with a cpuset belong to another manager, usually the kubelet's static policy. While
// there is one, this package does not manage the node: it answers, changes nothing, and Status has the reason.
//
// # Estimates
//
// If the source of pods does not list a pod that starts, and Config.Estimate agrees, its request is estimated
// from the cgroup numbers in RunPodSandbox. Such a pod gets one pool for all its containers, as large as its
// numbers, or runs on the node shared pool. It is marked in the state, and it does not move when it is listed
// later.
//
// An empty cpuset.cpus or cpuset.mems means "no change" to a runtime. None is ever sent; a pod that would
// need one is rejected. The cgroup file system, read by the loop's jobs, decides what a container has.
package nri
