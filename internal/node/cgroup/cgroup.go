// Package cgroup reads the settings of a container from its cgroup and how often it was throttled,
// and writes the CFS quota of a pod.
//
// It supports cgroup v2, and the controllers cpuset and cpu of v1 (kernel documentation:
// admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst). The root
// of the file system shows the version. The package writes only the quota.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultRoot is the usual mount point of cgroups.
const DefaultRoot = "/sys/fs/cgroup"

// maxFile is the largest file that is read, in bytes. A list of 4096 single CPUs has 20 KiB.
const maxFile = 64 << 10

// FS is a file system of cgroups.
type FS struct {
	// Root is its mount point.
	Root string
}

// v2 reports whether this is a file system of cgroup v2.
func (f FS) v2() bool {
	_, err := os.Stat(filepath.Join(f.Root, "cgroup.controllers"))
	return err == nil
}

// file returns the path of a file of a controller.
func (f FS) file(path, controller, name string) string {
	if f.v2() {
		return filepath.Join(f.Root, filepath.Clean("/"+path), name)
	}
	return filepath.Join(f.Root, controller, filepath.Clean("/"+path), name)
}

// Read returns the settings of a cgroup, whose path is one that Path returned. CPUs and memory
// nodes that were not written are empty. In v1 they are inherited and never empty. If the cgroup is
// gone, the error wraps fs.ErrNotExist.
func (f FS) Read(path string) (converge.Setting, error) {
	var s converge.Setting
	cpus, err := read(f.file(path, "cpuset", "cpuset.cpus"))
	if err != nil {
		return s, err
	}
	if s.CPUs, err = cpuset.Parse(cpus); err != nil {
		return s, fmt.Errorf("cgroup %s: cpuset.cpus: %w", path, err)
	}
	mems, err := read(f.file(path, "cpuset", "cpuset.mems"))
	if err != nil {
		return s, err
	}
	nodes, err := cpuset.Parse(mems) // cpuset.mems has the form of a list of CPUs
	if err == nil && nodes.Highest() > mask.MaxNode {
		err = fmt.Errorf("%s: expected NUMA nodes from 0 to %d", mems, mask.MaxNode)
	}
	if err != nil {
		return s, fmt.Errorf("cgroup %s: cpuset.mems: %w", path, err)
	}
	s.Mems = mask.Of(nodes.IDs()...)
	s.Quota, err = f.Quota(path)
	return s, err
}

// Inner returns the name and the CPUs of a cgroup directly below another one that has other CPUs
// than that one. The program of a container that has such cgroups pins its threads itself, as a
// virtual machine does. If there is none, the name is empty. If the upper cgroup is gone, the error
// wraps fs.ErrNotExist.
func (f FS) Inner(path string) (name string, cpus cpuset.Set, err error) {
	outer, err := read(f.file(path, "cpuset", "cpuset.cpus"))
	if err != nil {
		return "", cpuset.Set{}, err
	}
	entries, err := os.ReadDir(f.file(path, "cpuset", ""))
	if err != nil {
		return "", cpuset.Set{}, gone(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		text, err := read(f.file(filepath.Join(path, e.Name()), "cpuset", "cpuset.cpus"))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && (text == "" || text == outer):
			continue // The cgroup has no cpuset controller, or has just ended, or has no CPUs of its own.
		case err != nil:
			return "", cpuset.Set{}, err
		}
		cpus, err := cpuset.Parse(text)
		if err != nil {
			return "", cpuset.Set{}, fmt.Errorf("cgroup %s/%s: cpuset.cpus: %w", path, e.Name(), err)
		}
		return e.Name(), cpus, nil
	}
	return "", cpuset.Set{}, nil
}

// Set writes the CPUs, the memory nodes and the quota of a cgroup. What is empty, or quota.Keep,
// stays. If the cgroup is gone, the error wraps fs.ErrNotExist.
func (f FS) Set(path string, s converge.Setting) error {
	var errs []error
	if !s.CPUs.IsEmpty() {
		errs = append(errs, write(f.file(path, "cpuset", "cpuset.cpus"), s.CPUs.String()))
	}
	if !s.Mems.IsEmpty() {
		errs = append(errs, write(f.file(path, "cpuset", "cpuset.mems"), s.Mems.List()))
	}
	_, err := f.SetQuota(path, s.Quota)
	return errors.Join(append(errs, err)...)
}

// write writes to an existing file, because only the kernel creates the files of cgroups.
func write(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:forbidigo // it is the kernel's file: there is nothing to sync or to replace
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(gone(err), file.Close())
}

func read(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := bounded.Read(name, file, maxFile)
	return strings.TrimSpace(string(data)), gone(err)
}

// gone adds fs.ErrNotExist to ENODEV, which is the error for an open file whose cgroup has been
// removed.
func gone(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// Path returns the path of a cgroup below the root. With the cgroupfs driver, a runtime names a
// cgroup by its path. With the systemd driver, it names a slice, or "slice:prefix:name" for a scope
// in a slice. A path is returned unchanged, even if such a name is in it.
func Path(runtime string) string {
	if slice, rest, scoped := strings.Cut(runtime, ":"); scoped && !strings.Contains(slice, "/") {
		prefix, name, _ := strings.Cut(rest, ":")
		if prefix != "" {
			name = prefix + "-" + name
		}
		return expand(slice) + "/" + name + ".scope"
	}
	if strings.HasSuffix(runtime, ".slice") && !strings.Contains(strings.TrimPrefix(runtime, "/"), "/") {
		return expand(strings.TrimPrefix(runtime, "/"))
	}
	return runtime
}

// expand returns the path of a slice. The name of a slice contains the names of the slices above
// it: a-b.slice is in a.slice (systemd.slice(5)).
func expand(slice string) string {
	name := strings.TrimSuffix(slice, ".slice")
	var path strings.Builder
	for i, c := range name {
		if c == '-' && i > 0 {
			path.WriteString("/" + name[:i] + ".slice")
		}
	}
	return path.String() + "/" + slice
}

// Find returns the paths of the containers' cgroups below the root, by the runtime's ID; see
// containerID. IDs without a cgroup are left out. Find does not search below a container's cgroup.
func (f FS) Find(ids []string) (map[string]string, error) {
	root := f.Root
	if !f.v2() {
		root = filepath.Join(f.Root, "cpuset")
	}
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It has ended in the meantime.
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if id, is := containerID(entry.Name()); is && wanted[id] {
			found[id] = strings.TrimPrefix(path, root)
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

// containerID returns the ID of the container whose cgroup has the given name:
//
//	ID                             containerd, cgroupfs driver
//	cri-containerd-ID.scope        containerd, systemd driver
//	SLICE:cri-containerd:ID        containerd with the cgroupfs driver, given a systemd path
//	crio-ID                        CRI-O, cgroupfs driver
//	crio-ID.scope                  CRI-O, systemd driver
//
// Other prefixes are also possible. The cgroups crio-conmon-ID and crio-conmon-ID.scope are not
// those of the container. They belong to the process that watches it (conmon), which may use the
// CPUs of the pod's other processes.
func containerID(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".scope")
	i := strings.LastIndexAny(name, "-:")
	if i < 0 {
		return name, true
	}
	return name[i+1:], !strings.HasSuffix(name[:i], "conmon")
}
