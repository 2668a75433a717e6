// Package control runs the programs of a control plane on loopback: it makes their certificates and
// kubeconfigs, starts and stops the programs, and waits until the API server is ready. Which
// programs there are, and with which flags, is the caller's.
package control
