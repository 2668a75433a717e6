// Package control is the control loop of a node, as a value. Step takes a loop, an event and the
// time. It returns the next loop and the actions that follow from the event. It has no goroutine,
// no clock and no lock, reads nothing and waits for nothing. Everything that it needs from the
// engine comes with the event. Package runtime/nri feeds in the events and carries out the actions.
//
//	Event   a request of the runtime, whose sender waits for the answer if the event has a number; the
//	        outcome of a job or of an update; a timer; a change of the connection
//	Action  an answer; a job (find a pod, plan, decide, write, read cgroups, list pods, write quotas,
//	        prove a step of a move), whose outcome is an event; an update for the runtime; a line of
//	        the log, a number for the metrics, a notice; the time of the next Timer; the end of the
//	        connection
//	Loop    a record for each container: what it has, what was sent for it, and its phase. A record
//	        for each pod: its last rejection, its resize, its move. The mode of the connection, and
//	        the reason to end it. What is under way: replies, one update, jobs by name, a set of moves
//
// A request of the runtime that has to wait is a chain of jobs: Admission, Adoption, Resize,
// Synchronise and Carry. Each job has the data of the chain, and its outcome returns them. So the
// loop stores nothing about a chain and forgets nothing. The chain ends with the answer.
//
// A Step never changes the loop that it was given. It copies the records that it changes, and the
// parts of the maps that have them. So every history of requests, crashes, delays and lost updates
// is a list of events, and a test can go back to any moment of it.
//
// The time of a Step grows linearly with the number of containers, not with its square: see Wanted
// of package converge.
//
// # What waits, and for how long
//
//	a hook            until Until: Config.Timeout or half of the runtime's own timeout, whichever is less. Each of
//	                  its jobs ends then. The hook fails with the reason, and the kubelet tries again. The edge
//	                  waits for the answer a sixteenth longer (Synchronize: half), and an answer that comes later
//	                  is taken back (Undelivered). A durable pod needs neither the disk nor the source of pods: it
//	                  is answered within milliseconds
//	the devices of    half of the hook's time, at the same time as the source of pods, and only for a pod that
//	others            requests devices. Then the kubelet tries again. Under a policy that admits pods that are not
//	                  aligned, the pod is admitted without its devices, and keeps the reason for its account
//	a job             Config.Timeout for the source of pods, Config.Period for the disk. A job that reads or
//	                  writes cgroups waits for the kernel, which has no limit: until it returns, no other job with
//	                  its name begins, and a container that is not settled counts as having all that it may have
//	an end            of a container or a sandbox: as a hook. Then the runtime goes on without the answer, and the
//	                  loop learns of the end from its next events
//	an unsolicited    as long as the runtime sends no other request, because the update has the runtime's lock. If
//	update            other requests come, 10 s. Then the connection is closed, and the runtime synchronises the next one
//	a connection      15 s until the runtime synchronises, or 2 minutes for CRI-O, which first stops the containers
//	                  that it is stopping; then the next attempt, at most 1 s later
//	the end of a      until the runtime has sent no request for 250 ms. After 3 s, creations and resizes fail, so that
//	connection        the kubelet repeats them on the next connection, and a pause of 25 ms is enough. After 8 s
//	                  the connection ends when no request is open, after 15 s in any case (link.go)
//	an update for a   5 s for a reply that takes it. Then the connection is closed or, while the runtime creates a
//	reply             container or CRI-O stops one, the agent writes the cgroup. Updates without a safe order wait
//	                  2 minutes more for the end of these, and then the connection is closed
//	an update of a    for nothing: the agent writes the cgroup of a container that CRI-O stops (stopping.go), at the
//	container that    next round, at most Config.Period after the kubelet lists the pod as being deleted. A
//	stops             creation that needs the CPUs fails until then, and the kubelet tries again. The write waits for
//	                  the kernel, without a limit. After 10 s that is logged. Until it ends, updates are in replies only
//	a hand-back       12 s for the runtime, which can be down, or busy stopping the agent's own container. Then the
//	                  edge writes the cgroups itself. The agent waits 20 s at most
//	a difference      until it was seen in two comparisons, 2 s apart (verify.go). Then the container is reported
//	                  as unverified. It is updated from the first comparison on
//
// # The phases of a container
//
//	creating   the reply was given; an update may not reach the container until it runs
//	updating   a reply or an update that changes the container is under way
//	unknown    something under way failed, or its outcome is open
//	settled    the container has the setting that the loop has noted
//
// While a container is not settled, it counts as having every setting that it had and every setting
// that was sent for it. So no container is created on, or moved to, CPUs that another one may still
// own, and no container gets CPUs of its own that another one may still use. If no update in the
// same reply is certain to make room, the creation fails, and the kubelet tries again.
//
// This depends on two properties of containerd and CRI-O. They ask, and apply the reply, under one
// lock. So the next request proves that the last reply was applied. And an unsolicited update waits
// for that lock, so it may be applied after a reply that was decided later. The CPUs in the update
// stay counted until it has landed.
//
// # Release
//
// A grant ends when its pod is gone from the source and no container of the pod runs. If the source
// does not know the pod, the grant ends some time after the sandbox was removed, if no new sandbox
// followed. The loop checks this after a pod ends, before a pod is rejected, and before it answers
// a runtime that synchronises. If the source does not answer when a pod is about to be rejected,
// the pod is not rejected: the sandbox fails, and the kubelet tries again.
//
// # Rejections
//
// A pod or a resize that was rejected is rejected again without a plan while its request and the
// engine's version are the same. If places can be kept for pods, that lasts 20 s only: the engine
// notices the end of a reservation at its next Tick, and a pod that was left alone may be moved by
// then.
//
// # Resizes
//
// A message about a resize has numbers, of the whole pod or of one container. The kubelet sends
// memory first and then CPUs. The request of the whole pod is in the kubelet's list of pods. The
// first message that the grant does not explain makes the loop ask for that list. The list has the
// pod's specification, and the kubelet applies the specification that it accepted last. So the
// numbers must be those of the list. In two cases the answer is an error, and the kubelet tries
// again: the numbers are neither those of the list nor those of the grant, or only some of them are
// those of the list and the list shows that the kubelet has not accepted its request
// (PodResizePending). So no pod gets in advance what the kubelet accepts later. A runtime that does
// not forward UpdatePodSandbox asks only about containers, and never about a pool. The loop finds
// the rest in the list later, and Status has the reason why resizes are not decided in advance.
//
// The engine decides a resize. The decision is durable before the answer, and is a part of the
// state from then on. The comparison gives each container what it should have: in the reply to the
// kubelet's own change of the container, in later replies and rounds, or, after a crash, at the
// next start. Until then a container that grows has less than its grant, and no container gets CPUs
// that a shrinking container still has. The loop leaves a container with CPUs of its own to the
// kubelet for 5 s after the decision, because the kubelet changes it in any case.
//
// The kubelet writes the pod's CFS quota after our answer, even if the pod should have none. So the
// quota of a pod that is being resized is read four times a second.
//
// # Runtimes that take no unsolicited updates
//
// An unsolicited update can hang a runtime whose NRI is older than 0.12.1. Such a runtime gets its
// updates in replies. If no reply takes an update for some seconds, the connection is closed, and
// the reply to the next Synchronize contains the update. While the runtime creates containers, or
// CRI-O stops one, a new connection would do harm, and the agent writes the cgroups itself. The
// connection is also closed, with any runtime, if another process has made containers run only on
// each other's CPUs: no update of one of them is safe, and a reply exchanges them.
//
// # Moves
//
// A pod is being moved if its grant has two places in the published state (docs/rules/moves.md).
// The state does not contain the progress of a move: the record of the pod has its step. All rules
// above apply to the state in which each such pod is in its step, as for any other change: what a
// container should have, which containers are in its way, and in which order.
//
//	widened    the old CPUs, and the memory nodes of both places. It lasts at least Config.Notice
//	switched   the new CPUs, as soon as no other container may still run on them
//	narrowed   the memory nodes of the new place. Then the state has only the new place
//	returned   the old CPUs and memory nodes, if a step fails. Then the state has only the old place
//
// A step ends when every container of the pod is settled with the setting of the step, and the
// container's cgroup shows that setting. For "narrowed", memory.numa_stat must show it too. A step
// has 30 s, and 4 s more for each GiB of memory that moves:
//
//	a stalled write of a cgroup      the update waits in the runtime, for 10 s at most if other requests come. After the
//	                                 time of the step the move is returned. Containers that cannot be updated keep both
//	                                 places assigned until they can
//	a lost update                    the next round sends it again
//	pages that stay where they are   the step does not end, and the move is returned
//	a container that ends            the other containers decide. One that starts meanwhile gets the setting of the step
//	a pod that ends                  its grant is released with both places
//	a state that cannot be written   at the beginning: nothing changes. At the end: each round tries again, and both places stay assigned
//	a restart of the agent           the state has both places. The move goes on from "widened", or from "switched" if a
//	                                 container has CPUs of the new place alone
//	a restart of the Kubernetes node as above, but without containers: no container is on the old place, and the pod gets the new one
//	a missing connection             nothing moves, and the time of the step runs
//
// While a pod is being moved, its containers can have the CPUs of either place, so no other pod
// gets any of them. There is one set of moves at a time, and only with a runtime that takes
// unsolicited updates.
//
// # Containers that the runtime does not report
//
// A runtime does not ask about a container that it creates between two connections. containerd
// delays a synchronisation until no creation is under way, so Synchronize shows the container.
// CRI-O synchronises while it creates containers, and does not show those. So the loop also learns
// containers from the requests that follow their creation. A learned container counts as running
// everywhere until its cgroup is read.
//
// Independently of the records, Inspect compares all running containers with the state once each
// Config.Period: the kubelet lists the containers, and the kernel shows their settings. Containers
// that are unknown or wrong are updated as after a synchronisation. Status.Verified reports those
// that stay wrong.
//
// # Ends that the runtime does not report
//
// If another plugin fails a request, the runtime does not pass it on to Paddock. containerd does
// not report the end of a sandbox that a plugin failed. So a record can also end without a request:
//
//	a container    when it has no cgroup, and the kubelet does not list it as running or its pod
//	               is released
//	a sandbox      when its pod gets another one, or 10 minutes after the last event of a pod without
//	               a grant and without containers
//	a reply        2 minutes after it created a container of which nothing was reported
//	a pod          when it has none of these, and the last rejection, move and event are old enough
//
// The loop does not forget a container that another manager pinned before its end is reported or
// the runtime synchronises, because two managers would be the worse fault.
//
// # A process that is stopped
//
// The loop expects a pulse each second. If a pulse is late by 2 s or more, the process did not run.
// If the connection ends then, the runtime has closed it because no answer came, and the time
// without Paddock began when the process stopped.
//
// # Another manager
//
// A container that is created with a cpuset belongs to another manager, usually the kubelet's
// static policy. While there is such a container, Paddock does not manage the node: it answers
// requests and changes nothing, and Status has the reason. When the last such container is gone,
// the runtime is asked to synchronise again.
package control
