// Package absence decides when a pod is gone, from the lists of pods that a kubelet gives.
//
// A pod that the list does not have is not always gone. A kubelet that has just started serves a list before it
// has read its manifests and heard from the API server: the list is empty or partial then, and the pods run on. If
// the API server is away, such a kubelet lists static pods only, for as long as that takes. To release the CPUs of
// a pod that waits in its crash-loop back-off (up to 5 minutes without a container) gives them to another
// pod, so a wrong "gone" costs more than a late one.
//
// Therefore a list counts against a pod only if one of these is true:
//
//   - it is from a kubelet process that listed the pod earlier: it knew the pod and removed it;
//   - it has the pod with the phase Succeeded or Failed: the kubelet does not start its containers again;
//   - it is from a process that is at least Settle old, and it has another pod of the same Source: this source
//     has delivered. A pod whose source is not known counts as one of the API server.
//
// A list with items that could not be read counts against no pod: each of them could be the pod.
//
// A pod that has a sandbox is gone after Lists such lists, over at least Grace. A pod without a sandbox, which
// nothing runs in, is gone after one, or when no list had it for Unheard. For such a pod the age of the
// process does not matter: a list with another pod of its Source is enough. A source delivers all its
// pods at once, so that only the moments in which a kubelet adds them one by one would be wrong, and an agent that
// starts would otherwise keep the CPUs of pods that ended while it was away for a minute.
//
// A Tracker is a value without a clock, a lock or a goroutine: the lists bring their times.
package absence
