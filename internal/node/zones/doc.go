// Package zones shows a node to schedulers that read NodeResourceTopology
// (topology.node.k8s.io/v1alpha2): what each NUMA node has and has left.
//
// Of is a function of the state and of the kubelet's list of pods. It returns zones with the
// amounts that are available to exclusive containers and pods, which exclude the pools of admitted
// pods, the settings under the names of the kubelet's options, and the fingerprint of the pods on
// the node. Resources that a policy does not manage are in no zone: CPUs without the static policy,
// memory without the Static policy.
//
// # Fingerprint
//
// A reader that knows of other pods does not trust the amounts. NodeResourceTopologyMatch counts
// all pods that are bound to the node and whose phase is not Pending: with requests and without,
// static ones, and those that have ended and still exist. The fingerprint is that of the same pods
// in the kubelet's list. The amounts also exclude what Pending pods have. With informerMode Shared,
// which is not the default, the plugin only counts pods that are Running. The fingerprint then
// differs while the node has pods that ended.
//
// The fingerprint is behind the kubelet by the age of its list, which is read every ten seconds
// (kubelet.DefaultEvery) and when a pod starts that it does not have, and by the time between two
// rounds of the Keeper, two seconds (reconcile.Poll), or the back-off while the API server does not
// answer. Pods that come and go without a pause do not make this longer, but a reader that sees
// them sooner finds the fingerprint of other pods, and goes on with what it assumed. Before the
// first list, the Keeper writes nothing.
//
// # Names of zones
//
// NodeResourceTopologyMatch uses the number in the name of a zone as an index, and crashes if it is
// not below the number of zones. So zones are numbered by position. If the ids of the NUMA nodes
// are not 0 to n-1, e.g. 0 and 8, the attribute numaNodeID of a zone has the id, if it differs.
//
// These readers only count amounts. If an amount would promise more than the node admits, less is
// shown: if only whole cores are assigned, the CPUs of cores that are completely free; under
// single-numa-node, no memory of NUMA nodes that serve memory together.
//
// A Keeper writes the object at most once a second, and only if something changed. It reads
// snapshots, and nothing waits for it. The CustomResourceDefinition belongs to another project.
// While it is missing, the Keeper logs that once and tries again every few minutes. The Node owns
// the object. The Keeper does not watch the object, but reads it again every ten minutes.
package zones
