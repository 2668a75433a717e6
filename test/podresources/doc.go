// Package podresources runs clients that were written for the kubelet against Paddock's servers,
// unchanged. Its tests are all there is of it. It is a module of its own, so that the main module
// depends neither on k8s.io/kubernetes nor on Telegraf.
//
// The clients are the reference's own client package
// (k8s.io/kubernetes/pkg/kubelet/apis/podresources, 1.36.3), for v1 and v1alpha1, and Telegraf
// 1.37.2. Its source does not mention the PodResources API: none of its plugins uses the socket.
// What is nearest is inputs.prometheus, which reads the metrics that the agent has in common with
// the kubelet, those of the PodResources API among them.
//
// Two servers answer: the agent as it is built, with a simulated runtime, and internal/node/podres by
// itself, in the binary of its tests, with 500 ResourceClaims, which a simulated runtime does not
// have. Both listen in a temporary directory and on loopback, and end with the test.
package podresources
