// Package kubelet is a source of pods: the kubelet's own list of the pods on its node, /pods.
//
// The list has static pods and those of the API server, with the UIDs that the container runtime
// also gets. The source reads it regularly, so a pod's specification is usually known when the pod
// starts. If it is not, the source asks again at once (Lookup). Before a caller decides that a pod
// is gone, it asks again (List), because an older list cannot show what happened since.
//
// Pods whose phase is Succeeded or Failed no longer run. They are not in the list, even if the
// kubelet still shows them.
//
// An answer is a list only if all of it is a PodList of v1. Everything else is an error, never a
// node without pods. The source reads the answer as a stream, item by item, in bounded memory, and
// reads of each pod only the fields that podspec uses. A broken item affects only its pod: if the
// UID can be read, the pod is listed but not usable. Items without a readable UID could be any pod,
// so while there are some, no pod is gone.
//
// The parser was compared with encoding/json into structs with these fields. encoding/json needs
// two thirds of the lines, and takes 12 % more CPU time. But the worst of the answers of
// memory_test.go takes 101 MiB with it and 36 MiB with this parser, and an agent may take 64 MiB.
//
// Package absence decides when a pod that is not in the list is gone (Gone). The connection shows
// whether the kubelet was restarted: there is one connection, and all its answers are from the same
// process. After a failed request the next answer counts as one of another process.
package kubelet
