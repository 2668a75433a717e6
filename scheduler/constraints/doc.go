// Package constraints makes a fleet obey what pods demand of the pods of other nodes: topology
// spread, pod affinity and pod anti-affinity.
//
// The plugins of kube-scheduler decide: PodTopologySpread and InterPodAffinity, their PreFilter and
// their Filter, as they are in the version of k8s.io/kubernetes that this module requires. They
// look at a snapshot that grows with every placement of the fleet. What only prefers nodes does not
// count: a fleet has a scoring of its own.
//
// # What is kept
//
// Pods that the plugins cannot distinguish form a class: namespace, labels, constraints, node
// selector and tolerations. A class keeps the state that PreFilter computed until a placement can
// change it. InterPodAffinity's own AddPod brings its state up to date. That of PodTopologySpread
// is only exact for changes of one node, as preemption makes them: its PreFilter runs again.
//
// A pod without constraints is only judged while a pod with required anti-affinity is in the fleet.
package constraints
