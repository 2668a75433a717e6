// Package observe compares the decisions of a kubelet with Paddock's predictions of them. The
// results show how far the predictions for a node can be trusted.
//
// A Ledger receives, from time to time, the state in the kubelet's files and the pods that the
// kubelet has decided about since the previous time. It plans each of these pods on the previous
// state, with the behavior of the kubelet's version, and compares the verdict, the reason, the CPUs
// of each container and the NUMA nodes of its memory.
//
// A kubelet decides within milliseconds, so the outcome exists before the prediction is computed.
// The prediction uses only the previous state and the request of the pod, and nothing that the
// kubelet wrote later. The files show neither the order of decisions between two reads nor when a
// pod that ended was removed, so the Ledger tries the possibilities. If only another order than
// that of the creation of the pods gives the answer, the result is Reordered, which does not count
// as a mistake. A decision without a previous state has no prediction: the result is Unsure, with
// the reason.
//
// After its managers, a kubelet compares the requests of all pods with the allocatable amounts of
// its Node, and rejects a pod for which there is too little (OutOfcpu). A Sight has these amounts.
// Pods without resources of their own leave no trace in the files. A rejection that the known pods
// do not explain is therefore Unsure, and not a difference.
//
// Pods that get no resources of their own are compared only if they are rejected.
package observe
