// Record runs scenarios through the Topology, CPU and Memory Managers of Kubernetes and writes
// their answers. README.md describes how golden files are recorded and checked.
//
// The managers are the packages of k8s.io/kubernetes, as a dependency of this module alone;
// Paddock itself does not have it. kubelet.go is what is around them in a kubelet, as far as
// it has a part in their decisions; config.go leads from a KubeletConfiguration to their
// settings; events.go carries out the events of docs/rules/format.md; state.go reads the
// managers' state.
package main
