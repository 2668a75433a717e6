// Package zones shows a node to schedulers that read NodeResourceTopology
// (topology.node.k8s.io/v1alpha2): what each NUMA node has and has left.
//
// Of is a function of the state. It returns zones with the amounts that are available to exclusive
// containers and pods, which exclude the pools of admitted pods, the settings under the names of
// the kubelet's options, and the fingerprint of the pods whose resources are subtracted. A reader
// that knows of other pods does not trust the amounts. Resources that a policy does not manage are
// in no zone: CPUs without the static policy, memory without the Static policy.
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
