// Package predict answers whether a node takes a pod, with which CPUs and NUMA nodes, and if not,
// why not. It is the planner of Paddock for other programs: an autoscaler that simulates a new
// node, a scheduler that filters nodes, a report about capacity. Values go in, and a verdict comes
// out. It reads no file, calls no API server, starts no goroutine, and uses no type of Kubernetes.
//
//	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 32, ThreadsPerCore: 2, Memory: 512 << 30}.Machine()
//	p, err := predict.NewPolicy(m, predict.PolicySpec{
//		TopologyManagerPolicy: "single-numa-node", CPUManagerPolicy: "static", ReservedCPUs: "0,64", DecidedBy: "kubelet-1.36",
//	})
//	node, err := predict.NewNode(p, nil)
//	r, err := predict.NewRequest(pod, p)
//	verdict := node.Plan(r)
//
// # Values
//
// A [Machine] is hardware, a [Policy] is how a node with that machine decides, and a [Node] has
// pods. All three are immutable, and any number of goroutines may use them at a time. Node.With and
// Node.Without return the next node, which shares what did not change with the node before. So a
// simulation needs no copy of a cluster's nodes. Make one Policy for nodes that are alike: they
// share what does not depend on their pods.
//
// [Restore] makes a node of what a cluster shows of its pods. Package objects reads the objects.
//
// A [Request] is a [Pod] as a policy counts it: its QoS class, and the containers that qualify for
// exclusive CPUs and for memory of their own. It is made once and asked on any node whose policy
// has the same feature gates.
//
// # Questions
//
//	Node.Admits       whether the pod fits, and why not in one word: the cheapest question
//	Node.Plan         the same, with the assignment, or a sentence about what is short
//	Node.AdmitsEach   Admits for many pods, each of them alone beside the pods of the node
//	Node.Fill         pods one after the other, each beside those before it that fit
//
// Only what the CPU Manager, the Memory Manager, the Topology Manager and the devices decide is
// answered. Taints, affinity, the sums of requests that a scheduler compares with the allocatable
// amounts of a Node, and the number of pods are questions for the scheduler.
//
// # Certainty
//
// [Verdict.Certainty] is how sure the answer is, and Verdict.Doubts are the reasons of one that is
// not:
//
//	Certain     Paddock decides on the node, and its agent gives the same answer for the same pods
//	Predicted   a kubelet decides by rules that were recorded from its release: the answer is its
//	            answer for the same pods, if they were admitted in the same order
//	Unsure      the answer depends on something that is not known
//
// The pods of a node must be those that the real node has. What a kubelet assigned depends on the
// order in which it admitted its pods, and on pods that are gone. So Node.With predicts what a pod
// was assigned. If you know it, for example from the PodResources API, use Node.WithAssigned.
//
// # Errors and limits
//
// A rejection is a verdict. An error means that a value is not usable; it wraps [ErrInvalid] and
// names what is wrong. No input panics. The work of a question is bounded in steps, so that the
// same question has the same answer everywhere: the search for NUMA nodes ends after a fixed number
// of them with the reason TopologySearchLimit. A pod has at most [MaxContainers] containers and
// [MaxGiven] devices that others chose, a machine of Facts at most [MaxCPUs] CPUs, a description at
// most [MaxDescription] bytes, and a machine at most 64 NUMA nodes.
//
// # Compatibility
//
// The package is alpha, as RELEASES.md defines it: it is compatible within a minor release, and the
// changelog names what changes in the next one. Within a minor release, what compiles and what is
// documented here do not change. Messages, and which of several equally good CPUs are chosen, may
// change. An answer that changes because it was wrong is in the release notes.
package predict
