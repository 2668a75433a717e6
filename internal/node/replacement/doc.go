// Package replacement writes files that other programs read and write: the state files of the
// kubelet and of Paddock.
//
// A file is written beside the old one, synced, and renamed. So a reader sees the old file or the
// new one, and the new file is durable when a function returns. No process can have the file open
// meanwhile: the lock of an agent is taken, and it is an error before anything changes if a kubelet
// runs or another process has the file open.
package replacement
