// Package cgroup reads what the kernel was told about a container, and lifts a pod's CFS quota.
//
// Cgroup v2, and of v1 the controllers cpuset and cpu (kernel documentation: admin-guide/cgroup-v2.rst,
// admin-guide/cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst). Which one a file system is, is seen by its
// root. Nothing else is written than the quota.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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
// empty where nothing was written; v1 has no such thing, there they are inherited. LiftQuota tells
// that there is no CFS quota. The error wraps fs.ErrNotExist for a cgroup that is gone.
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
	quota, err := f.quota(path)
	s.LiftQuota = quota < 0
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

// quota is the CFS quota in microseconds, -1 for none.
func (f FS) quota(path string) (int64, error) {
	name := f.quotaFile(path)
	text, err := read(name)
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(text, " ")
	if word == "max" {
		return -1, nil
	}
	quota, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no quota", name, text)
	}
	return quota, nil
}

func (f FS) quotaFile(path string) string {
	if f.v2() {
		return f.file(path, "", "cpu.max")
	}
	return f.file(path, "cpu", "cpu.cfs_quota_us")
}

// LiftQuota takes the CFS quota away from a cgroup, and tells whether it had one. The period stays as
// it is. The error wraps fs.ErrNotExist for a cgroup that is gone.
func (f FS) LiftQuota(path string) (bool, error) {
	quota, err := f.quota(path)
	if err != nil || quota < 0 {
		return false, err
	}
	none := "max"
	if !f.v2() {
		none = "-1"
	}
	return true, write(f.quotaFile(path), none)
}

// QuotaLifted tells whether a cgroup has no CFS quota.
func (f FS) QuotaLifted(path string) (bool, error) {
	quota, err := f.quota(path)
	return quota < 0, err
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
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
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

// Find returns the paths of the cgroups below the root of pods whose directory has the container's
// runtime id in its name, by id. Of ids that are not there nothing is returned.
func (f FS) Find(ids []string) (map[string]string, error) {
	root := f.Root
	if !f.v2() {
		root = filepath.Join(f.Root, "cpuset")
	}
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It ended meanwhile.
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		for _, id := range ids {
			if id != "" && strings.Contains(entry.Name(), id) {
				found[id] = strings.TrimPrefix(path, root)
			}
		}
		return nil
	})
	return found, err
}
