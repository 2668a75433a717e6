// Package absence decides when a pod is gone, from the lists of pods that a kubelet returns.
//
// A pod that is missing from a list is not always gone. A kubelet that has just started serves a
// list before it has read its manifests and got an answer from the API server. That list is empty
// or partial, and the pods still run. While the API server does not answer, such a kubelet lists
// static pods only. A pod in its crash-loop back-off has no container for up to 5 minutes. If its
// CPUs are released, another pod gets them. So a wrong "gone" costs more than a late one.
//
// Therefore a list counts against a pod only if one of these is true:
//
//   - it is from a kubelet process that listed the pod earlier: the process knew the pod and removed it;
//   - it has the pod with the phase Succeeded or Failed: the kubelet does not start its containers again;
//   - it is from a process that is at least Settle old, and it has another pod of the same Source: this source
//     has delivered its pods. A pod whose source is not known counts as a pod of the API server.
//
// A list with items that could not be read counts against no pod, because each of them could be the
// pod.
//
// A pod that has a sandbox is gone after Lists such lists, over at least Grace. A pod without a
// sandbox, in which no process runs, is gone after one such list, or when no list had it for
// Unheard. For such a pod the age of the process does not matter: a list with another pod of its
// Source is enough. A source delivers all its pods at once, so this is wrong only while a kubelet
// adds them one by one. Without this rule, an agent that starts would keep the CPUs of pods that
// ended while it was away for a minute.
//
// A Tracker is a value without a clock, a lock or a goroutine. The lists have their times.
package absence
