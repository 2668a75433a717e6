package kernelsettings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// mostText is the longest text that the kernel accepts in one write (fs/resctrl/rdtgroup.c,
// rdtgroup_kf_single_ops: a page).
const mostText = 4096

// hasResctrl reports whether resctrl is mounted.
func (f FS) hasResctrl() bool {
	_, err := os.Stat(f.place(quiet.DefaultClassFile))
	return err == nil
}

// groups returns the names of all groups of resctrl, without the default one. Without resctrl,
// there are none. A group whose file cannot be read is one of them.
func (f FS) groups() ([]string, error) {
	names, err := f.names(quiet.Resctrl + "/.")
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(f.place(quiet.ClassFile(name)))
		return err != nil && gone(err)
	}), err
}

// Others returns what the groups of resctrl contain that are not Paddock's, by their names. A group
// without a cache of its own, such as one that is being locked, is empty. unread has the files of
// the groups that cannot be read, or the directory of all groups.
func (f FS) Others() (others map[string]resctrl.Schemata, unread map[string]error) {
	names, err := f.groups()
	others, unread = map[string]resctrl.Schemata{}, map[string]error{}
	if err != nil {
		unread[quiet.Resctrl] = err
	}
	for _, name := range names {
		if resctrl.IsOurs(name) {
			continue
		}
		text, err := f.text(quiet.ClassFile(name))
		if err != nil && !gone(err) {
			unread[quiet.ClassFile(name)] = err
		}
		others[name], _ = resctrl.Parse(text) // See above.
	}
	return others, unread
}

// putGroup makes a group, changes it, or removes it, if text is empty. A group that cannot have
// what it must is not made.
func (f FS) putGroup(name, text string) error {
	dir := path.Dir(name)
	if text == "" {
		if err := f.dir(dir, false); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	made := false
	if _, err := os.Stat(f.place(name)); err != nil {
		// A runtime can make it at the same time, with a container in it.
		err := f.dir(dir, true)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		made = err == nil
	}
	for _, part := range parts(text) {
		if err := f.write(name, part); err != nil {
			if err = f.explain(err); made {
				err = errors.Join(err, f.dir(dir, false))
			}
			return err
		}
	}
	return nil
}

// parts returns the lines of schemata in as few texts as the kernel accepts.
func parts(text string) []string {
	if len(text) < mostText {
		return []string{text}
	}
	return strings.Split(text, "\n")
}

func (f FS) dir(name string, there bool) error {
	switch {
	case f.Dir != nil:
		return f.Dir(name, there)
	case there:
		return os.Mkdir(f.place(name), 0o755) //nolint:gosec // The kernel's own mode.
	}
	return os.Remove(f.place(name))
}

// explained is an error with what the kernel adds to it.
type explained struct {
	cause error
	text  string
}

func (e *explained) Error() string { return e.cause.Error() + ": " + e.text }
func (e *explained) Unwrap() error { return e.cause }

// explain adds what the kernel has about the last error (resctrl.rst, "last_cmd_status"), and what
// to do.
func (f FS) explain(err error) error {
	if already := (*explained)(nil); err == nil || errors.As(err, &already) || gone(err) {
		return err
	}
	text := ""
	if status, reading := f.text(quiet.Resctrl + "/info/last_cmd_status"); reading == nil && status != "ok" {
		text = status
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		others, _ := f.Others()
		names := make([]string, 0, len(others))
		for name := range others {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) > 0 {
			text = fmt.Sprintf("%s; the groups %s are not Paddock's: remove those that nothing needs", text, strings.Join(names, ", "))
		}
	case errors.Is(err, syscall.EACCES):
		text += "; groups are made and removed with CAP_DAC_OVERRIDE, also by root"
	case errors.Is(err, syscall.EBUSY):
		text += "; ids of groups that were removed are free again when their lines have left the cache (max_threshold_occupancy)"
	}
	if text = strings.TrimPrefix(text, "; "); text == "" {
		return err
	}
	return &explained{err, text}
}

// mostThreads is how many threads of a cgroup are read: as many as a kernel can have
// (include/linux/threads.h, PID_MAX_LIMIT), so that none is left in the default class.
const mostThreads = 1 << 22

// Threads returns the threads in a cgroup of a container and in those below it.
func (f FS) Threads(cgroup string) (ids []int, err error) {
	root := f.place(path.Join(quiet.Cgroups, cgroup))
	file := "cgroup.threads"
	if _, err := os.Stat(f.place(quiet.Cgroups + "/cgroup.controllers")); err != nil { // cgroup v1
		root, file = f.place(path.Join(quiet.Cgroups, "cpuset", cgroup)), "tasks"
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil || !entry.IsDir() || len(ids) > mostThreads:
			return err
		}
		found, err := numbers(filepath.Join(name, file))
		ids = append(ids, found...)
		if errors.Is(err, syscall.EOPNOTSUPP) { // It is not threaded: its processes are elsewhere.
			err = nil
		}
		return ignoreMissing(err)
	})
	return ids, err
}

// Tasks returns the threads in a group of resctrl.
func (f FS) Tasks(group string) (map[int]bool, error) {
	found, err := numbers(f.place(path.Join(quiet.Resctrl, group, "tasks")))
	in := make(map[int]bool, len(found))
	for _, id := range found {
		in[id] = true
	}
	return in, err
}

// Move moves a thread to a group of resctrl. It reports whether the thread was still there.
func (f FS) Move(group string, thread int) (moved bool, err error) {
	err = f.write(path.Join(quiet.Resctrl, group, "tasks"), strconv.Itoa(thread))
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, f.explain(err)
}

// numbers reads a file with a number in each line. A thread of another namespace is 0, and is left
// out.
func numbers(name string) (all []int, err error) {
	data, err := os.ReadFile(name)
	for line := range strings.Lines(string(data)) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && n > 0 {
			all = append(all, n)
		}
	}
	return all, err
}

// Usage is what a group of resctrl has of the caches and of the memory bandwidth, over all L3
// caches. Its elements are parallel to resctrl.Events.
type Usage [len(resctrl.Events)]struct {
	Value uint64
	Known bool
}

// Usage reads the monitoring of a group. An event that one of the caches has no number for is not
// known. Each reading interrupts a CPU of every cache.
func (f FS) Usage(group string) (u Usage) {
	dir := path.Join(quiet.Resctrl, group, "mon_data")
	caches, err := f.names(dir)
	if err != nil {
		return u
	}
	caches = slices.DeleteFunc(caches, func(name string) bool { return !resctrl.IsMonitored(name) })
	for i, event := range resctrl.Events {
		u[i].Known = len(caches) > 0
		for _, name := range caches {
			text, err := f.text(path.Join(dir, name, event))
			value, known := resctrl.ParseEvent(text)
			u[i].Value += value
			u[i].Known = u[i].Known && known && err == nil
		}
	}
	return u
}
