// Package programs is a module that requires the programs of Kubernetes and etcd that tests run.
// test/e2e and test/cluster build them here. The module uses the same versions of libraries as the
// module scheduler, so that Kubernetes is compiled once for both.
package programs

import (
	_ "go.etcd.io/etcd/server/v3/etcdmain" // These imports put what the programs need into go.mod.
	_ "k8s.io/kubectl/pkg/cmd"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
)
