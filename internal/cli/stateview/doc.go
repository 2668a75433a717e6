// Package stateview presents state files for "paddock state": their content, what a kubelet would
// do with them, what a conversion changes, and what the start of another kubelet does. Each is a
// document with the fields of the JSON output and a text for reading.
//
// The package reads no file and decides nothing. internal/kubelet/doctor judges, and this package
// presents.
package stateview
