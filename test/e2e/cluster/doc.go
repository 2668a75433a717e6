// Package cluster is a whole small cluster for a test: etcd, the API server, the controller manager
// and the scheduler on this machine, and one node with a real kubelet and containerd in a virtual
// machine.
//
// It needs no rights and no network. Every program of this machine listens on a port of loopback
// that is free, or on a socket in a directory of the test. The node reaches the API server, and
// nothing else, through QEMU. The API server reaches the node through a proxy in the test
// (EgressSelectorConfiguration), so that the address of the node does not have to exist on this
// machine. Everything ends with the test.
//
// The tests are pages of commands with their answers, in testdata: see page.go. Each page has a
// cluster of its own, which begins new or from a snapshot: the memory and the disk of the machine and
// the data of etcd, at the end of a page of testdata/snapshots. All clusters of a run have the same
// certificates, so a node that goes on is known to its control plane.
package cluster
