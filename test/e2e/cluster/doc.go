// Package cluster tests Paddock on a whole small cluster: etcd, the API server, the controller
// manager and the scheduler on this machine, and one node with a real kubelet and containerd in a
// virtual machine.
//
// It needs no privileges and no network. Every program on this machine listens on a free port of
// loopback, or on a socket in a directory of the test. The node reaches the API server, and nothing
// else, through QEMU. The API server reaches the node through a proxy in the test
// (EgressSelectorConfiguration), so that the address of the node need not exist on this machine.
// Everything ends with the test.
//
// The tests are pages of commands with their answers, in testdata: see page.go. Each page has its
// own cluster, which is new or starts from a snapshot. A snapshot is the memory and the disk of the
// machine and the data of etcd at the end of a page of testdata/snapshots. All clusters of a run
// have the same certificates, so a control plane knows a node that is resumed.
package cluster
