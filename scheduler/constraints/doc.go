// Package constraints makes a fleet obey the rules of pods about the pods of other nodes: topology
// spread, pod affinity and pod anti-affinity.
//
// The plugins PodTopologySpread and InterPodAffinity of kube-scheduler decide, with their PreFilter
// and Filter. Their version is that of k8s.io/kubernetes in this module's requirements. They see a
// snapshot that grows with every placement of the fleet. Rules that only prefer nodes are ignored,
// because a fleet has its own scoring.
//
// # What is kept
//
// Pods that the plugins cannot distinguish form a class: they have the same namespace, labels,
// constraints, node selector and tolerations. A class keeps the state that PreFilter computed until
// a placement can change it. InterPodAffinity's own AddPod updates the state of InterPodAffinity.
// The AddPod of PodTopologySpread is exact only for changes of one node, which is what preemption
// does. So the PreFilter of PodTopologySpread runs again.
//
// A pod without constraints is only judged while a pod with required anti-affinity is in the fleet.
package constraints
