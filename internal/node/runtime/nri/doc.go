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
// container that is not known, it was created without Paddock: see learn.
//
// # One event loop
//
// One goroutine, the loop, owns everything that is known about the runtime. Its methods are the
// events: a request of the runtime (enter, create, created, started, resizeContainer, end, leave,
// pinned, observe, synchronise), the outcome of a job (listed, landed, resized), a timer (tick,
// overdue, lift, pulse), the connection (connected, disconnected). No event waits, and one that
// takes more than 100 ms is logged and counted by its name. The time of an event grows with the
// number of containers and not with its square: see Wanted of package converge, crowd and queue.
// Work that may wait runs outside the loop: a request waits for the source of pods and for the disk
// in its own goroutine, until its deadline, and jobs read cgroups, ask the source of pods and write
// quotas. No code waits while it has a lock.
//
// # What waits, and for how long
//
//	a hook            until Config.Timeout or half of the runtime's own timeout, whichever is less. Then it
//	                  fails with the reason, and the kubelet tries again. This includes the time until the
//	                  loop answers: an answer that comes later is taken back (see ask). A durable pod needs
//	                  neither the disk nor the source of pods: it is answered within milliseconds
//	the devices of    half of the hook's time, at the same time as the source of pods, and only for a pod that
//	others            requests devices. Then the kubelet tries again, or, under a policy that admits pods that are
//	                  not aligned, the pod is admitted without its devices, and keeps the reason for its account
//	a job             Config.Timeout for the source of pods, Config.Period for the disk
//	an unsolicited    as long as the runtime sends no other request, because the update has the runtime's lock. If
//	update            other requests come, 10 s. Then the connection is closed, and the runtime synchronises the next one
//	a connection      15 s until the runtime synchronises; then the next attempt, at most 1 s later
//	the end of a      until the runtime has not asked for 250 ms. After 3 s, creations and resizes fail, so that
//	connection        the kubelet repeats them on the next connection, and a pause of 25 ms is enough; after 8 s
//	                  it ends when no request is open, after 15 s in any case (hangup.go)
//	an update for a   5 s for a reply that takes it, and then for the end of all creations that are under way,
//	reply             2 minutes at most. Then the connection is closed
//	a difference      until it was seen in two comparisons, 2 s apart (verify.go). Then the container is reported
//	                  as unverified; it is updated from the first comparison on
//
// # The phases of a container
//
//	creating   the reply is given; an update may not reach the container until it runs
//	updating   a reply or an update that changes it is under way
//	unknown    something under way failed, or its outcome is open
//	settled    it has the setting that the loop has noted
//
// While a container is not settled, it counts as having every setting that it had and every setting
// that was sent for it. So no container is created on, or moved to, CPUs that another one may still
// own, and no container gets CPUs of its own that another one may still use. If no update in the
// same reply is certain to make room, the creation fails, and the kubelet tries again.
//
// This depends on two properties of containerd and CRI-O. They ask, and apply the reply, under one
// lock, so the next request proves that the last reply was applied. And an unsolicited update waits
// for that lock, so it may be applied after a reply that was decided later. The CPUs in the update
// stay counted until it has landed.
//
// # Release
//
// A grant ends when its pod is gone from the source and no container of the pod runs. If the source
// does not know the pod, the grant ends some time after the sandbox was removed, if no new sandbox
// followed. The loop checks this after a pod ends, before it rejects a pod, and before it answers a
// runtime that synchronises. If the source does not answer when a pod is about to be rejected, the
// pod is not rejected: the sandbox fails, and the kubelet tries again.
//
// # Resizes
//
// A message about a resize has numbers: of the whole pod or of one container, first for memory and
// then for CPUs. The request of the whole pod is in the kubelet's list of pods. The first message
// that the grant does not explain makes this package read that list. The list has the pod's
// specification, and the kubelet applies the specification that it accepted last. So the numbers
// must be those of the list. The answer is an error, and the kubelet tries again, in two cases: the
// numbers are neither those of the list nor those of the grant, or only some of them are those of
// the list and the list shows that the kubelet has not accepted its request (PodResizePending).
// So no pod gets in advance what the kubelet accepts later.
//
// Engine.Resize decides about the whole request, and its decision is durable before the answer.
// From then on the decision is a part of the state, and the comparison gives each container what it
// should have: in the reply to the kubelet's own change of the container, in later replies and
// rounds, or, after a crash, at the next start. Until then a container that grows has less than its
// grant, and no container gets CPUs that a shrinking one has not left. The loop leaves a container
// with CPUs of its own to the kubelet for 5 s after the decision: the kubelet changes it in any
// case.
//
// The kubelet writes the pod's CFS quota after our answer, even if the pod should have none. So the
// loop reads the quota of a pod that is being resized four times a second.
//
// A runtime that does not forward UpdatePodSandbox asks only about containers, and never about a
// pool. The loop finds the rest in the list later, and Status has the reason why resizes are not
// decided in advance.
//
// # Runtimes that take no unsolicited updates
//
// An unsolicited update can hang a runtime whose NRI is older than 0.12.1. Such a runtime gets its
// updates in replies. If it sends no request for some seconds while an update waits, the connection
// is closed: the reply to the next Synchronize contains the update.
//
// # Moves
//
// A pod is being moved if its grant has two places in the published state (docs/rules/moves.md).
// The state does not contain the progress of a move: the loop keeps a step for each move. The
// function during returns the state with the pod in its step. Everything above then works as for
// any other change: what a container should have, which containers are in its way, and in which
// order.
//
//	widened    the old CPUs, the memory nodes of both places. It lasts for MovesConfig.Notice at least
//	switched   the new CPUs, as soon as no other container may still run on them
//	narrowed   the memory nodes of the new place. Then the state gets the new place alone
//	returned   the old CPUs and memory nodes, if a step fails. Then the state gets the old place alone
//
// A step ends when every container of the pod is settled with the step's setting, and its cgroup
// shows that, after "narrowed" also memory.numa_stat. A step has 30 s, and 4 s more for each GiB of
// memory that moves:
//
//	a stalled write of a cgroup      the update waits in the runtime, for 10 s at most if other requests come. After the
//	                                 time of the step the move is returned; the containers that cannot be updated keep
//	                                 both places assigned until they are
//	a lost update                    the next round sends it again
//	pages that stay where they are   the step does not end, and the move is returned
//	a container that ends            the others decide; one that starts meanwhile gets the setting of the step
//	a pod that ends                  its grant is released with both places
//	a state that cannot be written   begin: nothing changes. end: each round tries again; both places stay assigned
//	a restart of the agent           the state has both places. The move goes on from "widened", or from "switched" if a
//	                                 container has CPUs of the new place alone
//	a restart of the Kubernetes node the same, without containers: the new place is free of the old, and the pod gets it
//	a missing connection             nothing moves; the time of the step runs
//
// While a pod is being moved, its containers can have the CPUs of either place, so no other pod
// gets any of them. makeRoom looks for moves when a pod would be rejected. Carry makes the moves
// that an operator asks for. The loop makes one set of moves at a time, and only with a runtime
// that takes unsolicited updates.
//
// # Containers that the runtime does not report
//
// A runtime does not ask about a container that it creates between two connections. containerd
// delays a synchronisation until no creation is under way, so Synchronize shows the container.
// CRI-O synchronises while it creates containers, and does not show those. So the table also learns
// containers from the requests that follow their creation. A container that is learned counts as
// running everywhere until its cgroup is read.
//
// Whatever the table has, inspect compares what runs each Config.Period: the kubelet lists the
// containers, and the kernel shows their settings. Containers that are unknown or wrong are updated
// as after a synchronisation. Status.Verified has those that stay wrong.
//
// # A process that is stopped
//
// The loop expects a pulse each second. One that is late by 2 s or more means that the process did
// not run. If the connection ends then, the runtime has closed it because no answer came, and the
// time without Paddock began when the process stopped.
//
// # Another manager
//
// A container that is created with a cpuset belongs to another manager, usually the kubelet's
// static policy. While there is such a container, this package does not manage the node: it
// answers, changes nothing, and Status has the reason.
//
// # Estimates
//
// If the source of pods does not list a pod that starts, and Config.Estimate agrees, this package
// estimates the pod's request from the cgroup numbers in RunPodSandbox. Such a pod gets one pool of
// this size for all its containers, or runs on the node shared pool. The state marks the pod as
// estimated. If the source lists the pod later, the pod keeps its place.
//
// For a runtime, an empty cpuset.cpus or cpuset.mems means "no change". This package never sends
// one and rejects a pod that would need one. The cgroup file system, which the loop's jobs read, is
// the truth about what a container has.
package nri
