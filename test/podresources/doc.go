// Package podresources runs unchanged clients that were written for the kubelet against Paddock's
// servers. It consists only of tests. It is a separate module, so that the main module depends
// neither on k8s.io/kubernetes nor on Telegraf.
//
// The clients are the reference's own client package
// (k8s.io/kubernetes/pkg/kubelet/apis/podresources, 1.37.2), for v1 and v1alpha1, and Telegraf
// 1.37.2, whose test has the build tag telegraf because compiling it takes minutes. Telegraf's source
// does not mention the PodResources API: none of its plugins uses the socket. The closest plugin is
// inputs.prometheus, which reads the metrics that the agent has in common with the kubelet,
// including those of the PodResources API.
//
// Two servers answer. One is the agent as it is built, with a simulated runtime. The other is
// internal/node/podres alone, in the binary of its tests, with 500 ResourceClaims, which the
// simulated runtime does not have. Both listen in a temporary directory and on loopback, and end
// with the test.
package podresources
