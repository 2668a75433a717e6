// Package plugin is the plugin Paddock of the scheduling framework: with it a kube-scheduler binds
// a pod only to a node whose managers have CPUs, memory and devices for it.
//
// The plugin is thin. It reads pods and nodes, asks package cluster for views of internal/cluster/fleet,
// and says what they answer. What is decided is decided by the node's own planner.
//
//	PreFilter    the question: what the pod asks for; pods that ask for nothing of their own are skipped
//	AddPod, RemovePod   the node without or with pods, as values in the CycleState
//	Filter       the planner's answer, from the memo of the view where it is known
//	PreScore, Score     the cost of the plan, as a rank
//	Reserve      plans with the devices of the claims, keeps the grant, and answers the same question for the next pod
//	Bind         sends the grant in the annotations of the Binding
//
// A pod that does not fit is tried again when a queueing hint finds that a pod that ended has made
// room for it on its node, or when the objects of a node change so that it fits there.
//
// All profiles of a process share one cluster: see Factory.
package plugin
