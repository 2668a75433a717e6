// Package publication shows a cluster what one node decides by and has assigned: its PaddockMachine
// and its PaddockNode.
//
// # What is written, and when
//
// A change of the machine, the policy, the devices, the published grants, the conditions or the
// rejections is written within a second. The revision and the summary change with every admission;
// nothing depends on them, so alone they are written within Lazy. There is never more than one
// write in a second, however many pods are admitted, and none if nothing changed (package
// reconcile).
//
// A grant that the annotation of its pod has is not published: who reads the pod knows it. A pod
// whose grant differs from its annotation, or that the kubelet does not list, is published.
//
// # What waits
//
// Nothing waits for this package: it reads snapshots. Run is one goroutine that asks the API
// server, with a limit of time for each request. While the API server does not answer, nothing
// piles up: what there is when it answers is written.
//
// # Whose object it is
//
// The Node owns the object. The object is watched: if it is deleted, as when the Node is created
// again, it is created with the Node that is there then. If someone else changes it, it is written
// again.
package publication
