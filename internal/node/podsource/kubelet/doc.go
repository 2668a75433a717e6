// Package kubelet is a source of pods: the kubelet's own list of what runs on its node, /pods.
//
// The list has static pods and those of the API server, with the UIDs that the container runtime
// gets too. The source reads it regularly, so a pod's specification is usually known when the pod
// starts. If it is not, the source asks again at once (Lookup). Before it decides that a pod is
// gone, a caller asks again (List), because an older list cannot show what happened since.
//
// Pods whose phase is Succeeded or Failed no longer run. They are not in the list, even if the
// kubelet still shows them.
//
// An answer is a list only if all of it is a PodList of v1; everything else is an error, never a
// node without pods. The source reads it as a stream, item by item, in bounded memory, and of each
// pod only the fields that podspec reads. A broken item affects only its pod: the pod is listed and
// not usable if the UID can be read. Items without a readable UID could be any pod, so while there
// are some, no pod is gone.
//
// encoding/json into structs with these fields was tried in place of the parser here. It has two
// thirds of the lines, and takes 12 % more CPU time. But the worst of the answers of memory_test.go
// takes 101 MiB with it, 36 MiB with this one, and an agent may take 64 MiB.
//
// Package absence decides when a pod that is not in the list is gone (Gone). The connection shows
// whether the kubelet was restarted: there is one connection, and all its answers are from the same
// process. After a failed request the next answer counts as one of another process.
package kubelet
