// Package notice shows containers their resources, in a file for each container that asks for one.
//
// A pod asks by the annotation paddock-project.github.io/notice: "*" for all containers, or their
// names. Each such container gets its own directory, mounted read-only at MountPoint, with the file
// FileName. The file has the container's CPUs and NUMA nodes (Notice), and a change that is about
// to come. It is replaced by a rename, so inotify on the directory reports IN_MOVED_TO, and a
// reader sees either the old file or the new one.
//
// # Which changes count
//
// Every change of the CPUs or the NUMA nodes of the container counts: a resize, a move, CPUs that
// go offline, and a node shared pool that shrinks or grows because of other pods. A change is in
// the file after it was verified: the runtime has applied it, or its cgroup shows it. A change that
// is announced (Pending) is in the file before it begins. Quotas do not count. Changes that come
// faster than they can be written are merged into one.
//
// # Who owns the files
//
// The agent owns them, in a directory below /run. On the usual node this is a tmpfs, so that no
// disk stalls, and a reboot removes the files together with the containers. Directories have mode
// 0755 and files 0644, for containers that do not run as root. The directory of a pod is removed
// when the pod is gone, even if that happened while the agent was away (Keep). The revision
// continues after a restart of the agent, because an existing file is read first.
// internal/node/store has the rules for containers that can write to their directory because they
// are privileged.
//
// # What a file may cost
//
// A failure affects only the file. One goroutine, Run, writes. A disk that stalls blocks only this
// goroutine. Open waits for it until its context ends, and the container then starts without a
// mount. Every other method only records what is to be written. A write that fails is logged once
// for each reason, and repeated after Retry. Names that are not a UID and a container name never
// become a path.
//
// # Left alone
//
// A pod answers by the annotation paddock-project.github.io/leave-alone-until, a time. Until then
// it is not moved (Quiet). The policy limits how long that applies.
package notice
