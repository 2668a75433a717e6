// Package handover is the form in which a scheduler hands a grant to a node: the text of a pod's
// annotation.
//
// The scheduler plans on its copy of the node's state and writes the grant into the annotation of
// the pod, in the Binding. The node checks the grant with Check and applies it as it is, or plans
// by itself.
//
// # Form
//
// The text is one JSON object. A reader of version 1 reads no other version: it plans by itself.
//
//	{"v":1,"node":"n7","uid":"4cdf…","machine":"9f86…","policy":"01ba…","request":"5e88…",
//	 "pool":"1-8,193-200","poolMemory":[{"type":"memory","bytes":34359738368,"nodes":"0"}],
//	 "containers":[{"cpus":"2-6,194-198","memory":[…],"nodes":"0","aligned":true}, …]}
//
// machine and policy are the digests of what the grant was planned with, and request is that of
// what the pod asks for. Containers are in the order of the pod. CPUs and NUMA nodes are lists as
// in cpuset(7), memory is in bytes. A member that is empty or false is left out. The same grant
// always has the same bytes, and Decode rejects other bytes with the same content.
//
// The text has no request: the pod's specification is the only place for that. A reader makes a
// node.Grant of a text and of the request that it knows, and the digest proves that both sides read
// the same pod. So a text can choose a place; it never changes what a pod asks for.
//
// # Bounds
//
// A text has at most MaxSize bytes. A pod whose grant is larger is bound without one.
package handover
