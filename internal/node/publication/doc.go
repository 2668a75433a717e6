// Package publication publishes one node's PaddockMachine and PaddockNode objects. They show a
// cluster on what the node bases its decisions and what it has assigned.
//
// # What is written, and when
//
// A change of the machine, the policy, the devices, the published grants, the conditions or the
// rejections is written within a second. The revision, the summary and the number of decisions
// change with every admission, and no program depends on them. If only they change, they are
// written within Lazy, and the certainty of an observed node within Settling, unless it begins or
// ends to be unsure. There is never more than one write per second, however many pods are admitted,
// and none if nothing changed (package reconcile).
//
// A grant is not published if its pod's annotation has it, because readers of the pod know it. A
// pod is published if its grant differs from its annotation, or if the kubelet does not list it.
//
// # Where a kubelet decides
//
// The objects of an observed node have the same form. All grants are published, because nothing
// applies the annotation of a pod there. The status also has which kubelet decides, by which rules,
// what its files have beside the grants, and how surely that is so. The revision grows across
// restarts of the agent, although the state of an observed kubelet is in no file of the agent.
//
// # What blocks
//
// Nothing waits for this package: it reads snapshots. Run is one goroutine that sends requests to
// the API server, each with a timeout. While the API server does not answer, nothing accumulates:
// when it answers again, the state at that time is written.
//
// # Ownership
//
// The Node owns the object. The object is watched. If it is deleted, e.g. because the Node was
// created again, it is created again with the present Node as its owner. If another writer changes
// it, it is written again.
package publication
