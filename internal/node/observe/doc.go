// Package observe compares what is predicted of a kubelet with what the kubelet does. It is what a
// node's own history proves about the predictions for it.
//
// A Ledger gets, from time to time, the state that the kubelet's files show and the pods about
// which the kubelet has decided since the last look. It plans each of these pods on the state from
// before, which has the behavior of the kubelet's version, and compares the verdict, the reason,
// the CPUs of each container, and the NUMA nodes of its memory.
//
// A kubelet decides within milliseconds, so a prediction is computed when its outcome is already
// there. It is one all the same: it uses the state from before and the request of the pod, and
// nothing that the kubelet wrote since. What the files do not show is tried: the order of pods that
// were decided between two looks, and whether a pod that ended had been removed before. If only
// another order gives the answer, the comparison is Reordered, and it is not counted as a mistake.
// A decision before which no state was seen has no prediction: it is Unsure, with the reason.
//
// A kubelet that has asked its managers compares the requests of all pods with what its Node has
// for pods, and rejects a pod for which there is too little (OutOfcpu). A Sight has these amounts.
// Pods without resources of their own come and end without a trace in the files, so a rejection
// that the seen pods do not explain is Unsure, and not a difference.
//
// Pods that get nothing of their own are compared only if they are rejected.
package observe
