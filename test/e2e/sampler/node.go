package sampler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Node has the paths of a node's files.
type Node struct {
	// Kubepods is the directory of the cgroup of all pods.
	Kubepods string
	// Proc is /proc.
	Proc string
	// Bundles is the directory of the bundles that containerd hands to runc, by container ID.
	Bundles string
	// Open opens a file of a cgroup.
	Open func(name string) (File, error)
}

// File is a file of a cgroup. Each read starts at its beginning.
type File interface {
	io.ReaderAt
	io.Closer
}

// Here returns the node on which the program runs.
func Here() Node {
	return Node{
		Kubepods: "/sys/fs/cgroup/kubepods", Proc: "/proc", Bundles: "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
		Open: func(name string) (File, error) { return os.Open(name) },
	}
}

// Container is a container of a pod.
type Container struct {
	// Pod is its namespace and name, separated by a slash.
	Pod, Name string
}

// Identify returns the container with an ID. It returns nil if the ID does not belong to a
// container of a pod, e.g. for a pod's sandbox. A container that is being created may not be ready.
func (n Node) Identify(id string) (c *Container, ready bool) {
	if !isContainer(id) {
		return nil, true
	}
	data, err := os.ReadFile(filepath.Join(n.Bundles, id, "config.json"))
	if err != nil {
		return nil, false
	}
	var spec struct{ Annotations map[string]string }
	if json.Unmarshal(data, &spec) != nil {
		return nil, false
	}
	const prefix = "io.kubernetes.cri."
	if spec.Annotations[prefix+"container-type"] != "container" {
		return nil, true
	}
	return &Container{spec.Annotations[prefix+"sandbox-namespace"] + "/" + spec.Annotations[prefix+"sandbox-name"], spec.Annotations[prefix+"container-name"]}, true
}

// isContainer reports whether a cgroup, given the last part of its name, belongs to a container or
// a sandbox, and not to a pod or a QoS class.
func isContainer(name string) bool { return len(name) == 64 }

// Runs reports whether a program of a container runs in its cgroup. A process that cannot be read
// counts as one, unless it has ended.
func (n Node) Runs(dir string) bool { return n.occupied(dir) == byProgram }

// occupant describes what runs in a cgroup.
type occupant int

const (
	byNothing occupant = iota
	// byRunc means that only runc runs there, which creates the container.
	byRunc
	// byProgram means that a program of the container runs there. runc may run beside it, to start
	// a command in the container.
	byProgram
)

// occupied reads what runs in a cgroup. It does not use the names of processes: runc starts itself
// from a descriptor, and its name is a number until it has read what to do. The link to the
// executable is runc in all its stages.
func (n Node) occupied(dir string) occupant {
	for range 2 { // A process may start between the reads of the two files of a cgroup.
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !gone(err) {
			return byProgram
		}
		by := byNothing
		for pid := range strings.FieldsSeq(string(data)) {
			by = max(by, n.executes(pid))
		}
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		if by != byNothing || gone(err) || err == nil && !bytes.Contains(events, []byte("populated 1")) {
			return by
		}
	}
	return byProgram // It runs in a cgroup below this one.
}

// executes reads what the threads of a process execute. A thread that has ended executes nothing,
// even if it is the first one of a process that still runs.
func (n Node) executes(pid string) (by occupant) {
	tasks := filepath.Join(n.Proc, pid, "task")
	threads, err := os.ReadDir(tasks)
	if err != nil && !gone(err) {
		return byProgram
	}
	for _, thread := range threads {
		program, err := os.Readlink(filepath.Join(tasks, thread.Name(), "exe"))
		switch {
		case gone(err):
		case err == nil && isRunc(program):
			by = byRunc
		default:
			return byProgram
		}
	}
	return by
}

// unlimited reports whether a cgroup has no cpuset.cpus, so that it uses the CPUs of its parent.
func unlimited(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "cpuset.cpus"))
	return err == nil && len(bytes.TrimSpace(data)) == 0
}

// isRunc reports whether the link of a process to its executable is runc. runc executes a copy of
// itself: its file through its own mount, or a file in memory (libcontainer/exeseal of runc).
func isRunc(program string) bool {
	program = strings.TrimSuffix(program, " (deleted)")
	return filepath.Base(program) == "runc" || strings.HasPrefix(program, "/memfd:runc_cloned:")
}

// gone reports whether an error means that a cgroup or a process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH)
}

func exists(dir string) bool {
	_, err := os.Lstat(dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// text returns the first word of a file that stays open.
func text(f File) (string, bool) {
	var buffer [256]byte
	n, err := f.ReadAt(buffer[:], 0)
	word, _, _ := bytes.Cut(bytes.TrimSpace(buffer[:n]), []byte(" "))
	return string(word), err == nil || errors.Is(err, io.EOF)
}
