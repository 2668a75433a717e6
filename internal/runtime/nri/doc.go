// Package nri drives containerd and CRI-O through the Node Resource Interface.
//
// The runtime asks before it acts, and the answers carry what Paddock decided:
//
//	RunPodSandbox    the whole pod is planned, and durable, before any container exists; a refusal
//	                 fails the sandbox with the reason and the account
//	CreateContainer  cpuset.cpus, cpuset.mems and the quota of the container, and in the same reply the
//	                 updates of every container whose CPUs changed; who shrinks comes first
//	UpdateContainer  what a resize asks for, with our CPUs, memory nodes and quota in place of its own
//	StopContainer    nothing is given back; the reply carries updates that wait
//	Synchronize      desired against observed, for everything that runs
//
// A pod's grant ends when the pod is gone from its source and nothing of it runs; where the source
// cannot tell, when its sandbox was removed and no new one followed for a while. The reconcile loop finds
// that out, plans what started while the agent was away, and lifts the quota of pods that are exclusive as
// a whole, which NRI cannot. It sends updates of its own to runtimes whose NRI is known to
// stand it (0.12.1); with others they wait for the next reply.
//
// Where the source of pods does not list a pod that starts, and Config.Estimate agrees, its request is estimated
// from what RunPodSandbox shows of its cgroup. Such a pod gets as a whole what its numbers say, one pool for all its
// containers, or runs on the node's shared pool; it is marked in the state, and it is not moved when
// it is listed later.
//
// What is believed of a container is what was told to it and confirmed; in doubt it is the union of
// what it may run on, so that it counts as shrinking until that is certain. The cgroup file system, read
// by the reconcile loop, has the last word.
//
// No update of the loop's can undo a later decision: it is sent outside of all locks, so it may arrive
// after a reply that was decided later. A container of a pod that was admitted after the update was
// computed is therefore not created until the update is through.
//
// An empty cpuset.cpus or cpuset.mems means "no change" to a runtime. None is ever sent; who would need
// one is refused.
//
// Containers that come with a cpuset belong to somebody else, the kubelet's static policy as a rule. Then
// this package stands aside: it answers, and changes nothing (Ready says why).
package nri
