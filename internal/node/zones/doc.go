// Package zones shows a node to schedulers that read NodeResourceTopology
// (topology.node.k8s.io/v1alpha2): what each NUMA node has and has left.
//
// Of is a function of the state: zones with what is available to exclusive containers and pods,
// also beside the pools of pods, the settings under the names of the kubelet's options, and the
// fingerprint of the pods whose resources are subtracted. A reader that knows of other pods does
// not trust the amounts. What a policy does not manage is in no zone: CPUs without the static
// policy, memory without the Static one.
//
// These readers count amounts. Where an amount would promise what the node rejects, less is shown:
// with whole cores only, the CPUs of cores that are free as a whole; under single-numa-node, no
// memory of NUMA nodes that serve memory together.
//
// A Keeper writes it: at most once a second, and not at all while nothing changed. It reads
// snapshots, and nothing waits for it. The CustomResourceDefinition is another project's. While it
// is missing, the Keeper logs that once and looks for it rarely. The Node owns the object, which is
// looked at again every ten minutes: no watch is kept for it.
package zones
