// Package kubelet requires the kubelet of the recorded minor, so that test/e2e can build the program
// in this module: see the nights of test/e2e/cluster.
package kubelet

import _ "k8s.io/kubernetes/cmd/kubelet/app" // so that go.mod has what it needs
