// Package plugin implements the scheduler plugin Paddock. With it, a kube-scheduler binds a pod
// only to a node whose managers have CPUs, memory and devices for the pod.
//
// The plugin is thin. It reads pods and nodes, asks package cluster for views of
// internal/cluster/fleet, and reports their answers. The node's own planner makes all decisions.
//
//	PreFilter    reads what the pod requests; skips pods that request no exclusive resources
//	AddPod, RemovePod   add pods to a node or remove them, as values in the CycleState
//	Filter       returns the planner's answer, from the memo of the view if it is known
//	PreScore, Score     rank nodes by the cost of the plan
//	Reserve      plans with the devices of the claims, keeps the grant, and answers the same question for the next pod
//	Bind         sends the grant in the annotations of the Binding
//
// A pod that does not fit is tried again in two cases: if a queueing hint finds that a pod that
// ended has made room for it on its node, or if the objects of a node change so that it fits there.
//
// # Pod groups
//
// The scheduler places all pods of a group on trial, takes all of them back, and reserves them again
// for their bindings. To find out which pods to preempt, it also removes pods from its snapshot,
// without a call of RemovePod. So in a pod group's cycle, Filter and Reserve use a cluster.Trial:
// copies of the nodes that belong to the attempt (gang). The cluster, other pods and queueing hints
// do not see them.
//
// # Devices of claims
//
// Filter allocates the claims of a pod as DynamicResources does (allocator), so that it asks with the
// devices that Reserve will get. A node on which Reserve fails nevertheless is not tried again until
// something changes (failures).
//
// All profiles of a process share one cluster: see Factory.
package plugin
