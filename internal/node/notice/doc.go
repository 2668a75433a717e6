// Package notice shows containers what they have: a file for each container that asks for one.
//
// A pod asks by the annotation paddock-project.github.io/notice: "*" for all containers, or their
// names. Each such container gets a directory of its own, mounted read-only at MountPoint, with the
// file FileName: its CPUs and NUMA nodes (Notice), and a change that is about to come. The file is
// replaced by a rename, so inotify on the directory reports IN_MOVED_TO, and a reader sees the old
// file or the new one.
//
// # Which changes count
//
// Whatever changes the CPUs or the NUMA nodes of the container: a resize, a move, CPUs that go
// offline, and a node shared pool that shrinks or grows because of other pods. A change is in the
// file after it was verified, that is when the runtime has applied it, or its cgroup shows it. A
// change that is announced (Pending) is in the file before it begins. Quotas do not count. Changes
// that come faster than they can be written are one change.
//
// # Who owns the files
//
// The agent, in a directory below /run: a tmpfs on the usual node, so that no disk stalls and a
// reboot removes what the reboot ended. Directories have mode 0755 and files 0644, for containers
// that do not run as root. The directory of a pod is removed when the pod is gone, also when that
// happened while the agent was away (Keep). The revision goes on after a restart of the agent,
// because a file that is there is read first. internal/node/store has the rules for containers that
// can write to their directory because they are privileged.
//
// # What a file may cost
//
// Nothing but the file. One goroutine, Run, writes; a disk that stalls keeps it waiting, and
// nothing else. Open waits for it until its context ends, and the container then starts without a
// mount. Every other method only notes what is wanted. A write that fails is logged once for each
// reason, and repeated after Retry. Names that are no UID and no container name never become a
// path.
//
// # Left alone
//
// A pod answers by the annotation paddock-project.github.io/leave-alone-until, a time: until then
// it is not moved (Quiet). The policy limits for how long that counts.
package notice
