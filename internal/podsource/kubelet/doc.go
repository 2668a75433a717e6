// Package kubelet is a source of pods: the kubelet's own list of what runs on its node, /pods.
//
// The list has static pods and those of the API server, with the UIDs that a container runtime is
// told too. It is asked for every now and then, so that a pod's specification is mostly there when the
// pod is to start; a pod that is not is asked for once more at once (Lookup). Decisions about who is gone
// ask anew (List), because only a list that was asked for after something happened can tell of it.
//
// Pods whose phase is Succeeded or Failed run no more and are not in the list, whatever the kubelet
// still shows of them.
package kubelet
