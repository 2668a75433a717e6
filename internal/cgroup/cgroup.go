// Package cgroup reads what the kernel was told about a container and how often it was throttled, and
// writes a pod's CFS quota.
//
// Cgroup v2, and of v1 the controllers cpuset and cpu (kernel documentation: admin-guide/cgroup-v2.rst,
// admin-guide/cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst). Which one a file system is, is seen by its
// root. Nothing else is written than the quota.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/bounded"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultRoot is where cgroups are.
const DefaultRoot = "/sys/fs/cgroup"

// maxFile bounds what is read of one file, in bytes; a list of 4096 single CPUs has 20 KiB.
const maxFile = 64 << 10

// FS is a file system of cgroups.
type FS struct {
	// Root is its mount point.
	Root string
}

// v2 tells which version the file system is.
func (f FS) v2() bool {
	_, err := os.Stat(filepath.Join(f.Root, "cgroup.controllers"))
	return err == nil
}

// file is the path of a controller's file.
func (f FS) file(path, controller, name string) string {
	if f.v2() {
		return filepath.Join(f.Root, filepath.Clean("/"+path), name)
	}
	return filepath.Join(f.Root, controller, filepath.Clean("/"+path), name)
}

// Read returns what was written for the cgroup of that path, which Path makes. CPUs and memory nodes are
// empty where nothing was written; v1 has no such thing, there they are inherited. The error wraps
// fs.ErrNotExist for a cgroup that is gone.
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
	if s.Mems, err = nodes(mems); err != nil {
		return s, fmt.Errorf("cgroup %s: cpuset.mems: %w", path, err)
	}
	s.Quota, err = f.Quota(path)
	return s, err
}

// nodes reads cpuset.mems, which has the form of a list of CPUs.
func nodes(text string) (mask.Mask, error) {
	ids, err := cpuset.Parse(text)
	if err != nil {
		return 0, err
	}
	if ids.Highest() > mask.MaxNode {
		return 0, fmt.Errorf("%s: NUMA nodes above %d are not known here", text, mask.MaxNode)
	}
	return mask.Of(ids.IDs()...), nil
}

// write writes to a file that is there: the kernel makes the files of cgroups, nobody else.
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

// gone makes ENODEV, which files of a cgroup answer with that was removed after they were opened, the error of
// one that was removed before.
func gone(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// Path makes the path of a cgroup below the root of what a runtime calls it: a path, as with the cgroupfs
// driver; or as with the systemd driver a slice, or "slice:prefix:name" for a scope in it.
func Path(runtime string) string {
	if slice, rest, scoped := strings.Cut(runtime, ":"); scoped {
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

// expand makes the path of a slice, whose name says in which slices it is: a-b.slice is in a.slice
// (systemd.slice(5)).
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

// Find returns the paths of the containers' cgroups below the root, by the runtime's id; see containerID. Of
// ids that are not there nothing is returned. What is below a container's cgroup is the container's own.
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
			return nil // It ended meanwhile.
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

// containerID is the id of the container that the cgroup of that name is of:
//
//	ID                             containerd, cgroupfs driver
//	cri-containerd-ID.scope        containerd, systemd driver
//	SLICE:cri-containerd:ID        containerd with the cgroupfs driver, told a systemd path
//	crio-ID                        CRI-O, cgroupfs driver
//	crio-ID.scope                  CRI-O, systemd driver
//
// and the same with other prefixes. crio-conmon-ID and crio-conmon-ID.scope are not of the container but of the
// process that watches it (conmon), which runs where the pod's other processes may.
func containerID(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".scope")
	i := strings.LastIndexAny(name, "-:")
	if i < 0 {
		return name, true
	}
	return name[i+1:], !strings.HasSuffix(name[:i], "conmon")
}
