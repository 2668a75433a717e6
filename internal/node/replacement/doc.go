// Package replacement writes files that others read and write: the kubelet's state files and those
// of Paddock.
//
// A file is written beside the old one, synced, and renamed, so that a reader sees the old file or
// the new one, and so that it is durable when a function returns. No process can have the file open
// meanwhile: an agent's lock is taken, and a running kubelet or another process with the file open
// is an error before anything changes.
package replacement
