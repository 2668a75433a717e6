// Package kubeletpods follows the pods of a kubelet as the kubelet itself has them: it watches its
// PodsAPI (KEP-4188, feature gate PodsAPI, alpha in 1.36, on by default since 1.37).
//
// The kubelet's list of pods, /pods, has their status as the API server returned it last. A
// rejection is in it only after the kubelet has written it there and received it again, and it
// replaces no state file, so a reader that polls sees it late. The PodsAPI has the kubelet's own
// status, and pushes it at the moment of the rejection.
//
// A Watch keeps the status of each pod and nothing else. It adds to the list and never replaces it:
// without the PodsAPI, everything works as before, and only later. So all errors lead to another
// attempt, and while there is no stream, no status is known.
//
// The socket is in a directory of its own in the kubelet's directory. The kubelet creates it again
// at each start, and answers FailedPrecondition until it has received its pods. It drops a client
// that is 100 events behind.
package kubeletpods
