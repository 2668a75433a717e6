// Package control runs the programs of a control plane on loopback. It creates their certificates
// and kubeconfigs, starts and stops the programs, and waits until the API server is ready. The
// caller decides which programs run, and with which flags.
package control
