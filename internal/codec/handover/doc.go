// Package handover implements the form in which a scheduler hands a grant to a node: the text of a
// pod annotation.
//
// The scheduler plans on its copy of the node's state and passes the grant in the Binding, as an
// annotation of the pod. The node checks the grant with Check. It applies the grant unchanged, or
// plans by itself.
//
// # Form
//
// The text is one JSON object. A reader of version 1 does not read any other version. It then plans
// by itself.
//
//	{"v":1,"node":"n7","uid":"4cdf…","machine":"9f86…","policy":"01ba…","request":"5e88…",
//	 "pool":"1-8,193-200","poolMemory":[{"type":"memory","bytes":34359738368,"nodes":"0"}],
//	 "containers":[{"cpus":"2-6,194-198","memory":[…],"nodes":"0","aligned":true}, …]}
//
// machine and policy are the digests of the machine and the policy with which the grant was
// planned. request is the digest of what the pod asks for. Containers are in the order of the pod.
// The members poolCache and cache are classes of the L3 caches, as in the state file. A node that
// does not know them takes the text for damaged, and plans by itself. CPUs and NUMA nodes are lists
// as in cpuset(7), and memory is in bytes. Members that are empty or false are omitted. The same
// grant always has the same bytes, and Decode rejects other bytes with the same content.
//
// The text does not contain the request, because the pod's specification is its only source. A
// reader combines a text and the request that it knows into a node.Grant. The digest proves that
// both sides read the same pod. So a text can choose a place, but it can never change what a pod
// asks for.
//
// # Bounds
//
// A text has at most MaxSize bytes. A pod whose grant is larger is bound without an annotation.
package handover
