// Package stateview presents state files for "paddock state": their content, what a kubelet would
// do with them, and what a conversion changes. Each is a document with the fields of the JSON
// output and a text for reading.
//
// The package reads no file and decides nothing. internal/kubelet/doctor judges, and this package
// presents.
package stateview
