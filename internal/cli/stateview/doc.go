// Package stateview is what "paddock state" shows of state files: their content, what a kubelet
// would do with them, and what a conversion changes. Each is a document with the fields of the JSON
// output and a text for reading.
//
// The package reads no file and decides nothing: internal/kubelet/doctor judges, this package
// shows.
package stateview
