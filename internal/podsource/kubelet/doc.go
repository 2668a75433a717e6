// Package kubelet is a source of pods: the kubelet's own list of what runs on its node, /pods.
//
// The list has static pods and those of the API server, with the UIDs that a container runtime is
// told too. It is asked for every now and then, so that a pod's specification is mostly there when the
// pod is to start; a pod that is not is asked for once more at once (Lookup). Decisions about who is gone
// ask again (List), because only a list that was asked for after something happened can tell of it.
//
// Pods whose phase is Succeeded or Failed run no more and are not in the list, whatever the kubelet
// still shows of them.
//
// An answer is a list only if it is a PodList of v1 as a whole; everything else is an error, never a node without
// pods. It is read as a stream, item by item, in bounded memory, and of a pod only what podspec reads. A broken item
// costs itself: its pod is listed and not usable if the UID can be read. Items without a readable UID could be any
// pod, so while there are some, no pod is gone.
//
// A pod that is not in the list is gone when package absence says so (Gone). Its evidence of a kubelet that
// started again is the connection: there is one, and an answer over the connection of an earlier
// answer is from the same process. After a failed question the next answer counts as one of another process.
package kubelet
