package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/store"
)

// replacement is a file that is about to be written.
type replacement struct {
	path string
	data []byte
	// kept is the name under which the file that was there stays; empty if there was none.
	kept string
}

// maxKept is how many originals are kept of one file.
const maxKept = 99

// replaceAll writes files, each in one step and durable, and keeps those that were there beside
// them, as NAME.before-1 and so on. It writes all of them before it replaces the first. Something
// that holds one of them is an error before anything is touched.
func replaceAll(files []*replacement) error {
	fsys := store.OS()
	for _, f := range files {
		if err := writable(f.path); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
		if err := notHeld("/proc", f.path); err != nil {
			return err
		}
	}
	for i, f := range files {
		err := writeBeside(fsys, f.path, f.data)
		if err == nil {
			err = f.keep(fsys)
		}
		if err != nil {
			return errors.Join(err, discard(fsys, files[:i+1]))
		}
	}
	for _, f := range files {
		if err := fsys.Rename(f.path+newSuffix, f.path); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(f.path)); err != nil {
			return err
		}
	}
	return nil
}

// newSuffix is that of a file while it is being written.
const newSuffix = ".paddock-new"

func writeBeside(fsys store.FS, path string, data []byte) error {
	name := path + newSuffix
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// discard removes what was written for nothing.
func discard(fsys store.FS, files []*replacement) error {
	var errs []error
	for _, f := range files {
		if err := fsys.Remove(f.path + newSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keep gives the file that is there a second name.
func (f *replacement) keep(fsys store.FS) error {
	there, err := fsys.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = there.Close() // nothing was read: it is a regular file
	for n := 1; n <= maxKept; n++ {
		name := f.path + ".before-" + strconv.Itoa(n)
		err := fsys.Link(f.path, name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		f.kept = name
		return err
	}
	return fmt.Errorf("%s: %d originals of it are kept already, as .before-1 and so on; remove some", f.path, maxKept)
}

// notHeld refuses a file that a running process has open, and one in the root directory of a
// running kubelet: it would overwrite the file with what it has in memory. What cannot be looked
// at, as of other users, is passed over.
func notHeld(proc, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir := realPath(filepath.Dir(path))
	path = filepath.Join(dir, filepath.Base(path))
	if lock, err := os.Stat(path + ".lock"); err == nil && lock.Mode().IsRegular() {
		held, err := store.OS().Lock(path + ".lock")
		if err != nil {
			return fmt.Errorf("%s: %w: stop that process first", path, err)
		}
		_ = held.Close() // it was only asked for
	}
	processes, err := os.ReadDir(proc)
	if err != nil {
		return nil //nolint:nilerr // without /proc nothing can be known
	}
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil || p.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		at := filepath.Join(proc, p.Name())
		if hasOpen(at, path) {
			return fmt.Errorf("%s: process %s (%s) has it open: stop it first", path, p.Name(), comm(at))
		}
		if comm(at) == "kubelet" && kubeletRoot(at) == dir {
			return fmt.Errorf("%s: the kubelet runs (process %s) and would overwrite it: stop it first, with systemctl stop kubelet", path, p.Name())
		}
	}
	return nil
}

func realPath(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return path
}

func hasOpen(process, path string) bool {
	fds, _ := os.ReadDir(filepath.Join(process, "fd")) // not permitted, or gone
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(process, "fd", fd.Name()))
		return err == nil && target == path
	})
}

func comm(process string) string {
	name, _ := os.ReadFile(filepath.Join(process, "comm")) // gone
	return strings.TrimSpace(string(name))
}

// kubeletRoot is the directory of a running kubelet's files.
func kubeletRoot(process string) string {
	const flag = "--root-dir"
	line, _ := os.ReadFile(filepath.Join(process, "cmdline")) // gone
	words := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, flag+"="); ok {
			return realPath(value)
		}
		if word == flag && i+1 < len(words) {
			return realPath(words[i+1])
		}
	}
	return realPath("/var/lib/kubelet")
}

// toKubelet are the files of a node as they are about to be written into dir, or, without, in
// place of those that were read.
func toKubelet(files map[kubeletstate.Manager][]byte, dir string, read []stateText) []*replacement {
	var out []*replacement
	for _, m := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager} {
		data, has := files[m]
		if !has {
			continue
		}
		path := filepath.Join(dir, m.FileName())
		if i := slices.IndexFunc(read, func(t stateText) bool { return t.manager == m }); dir == "" && i >= 0 {
			path = read[i].name
		}
		out = append(out, &replacement{path: path, data: data})
	}
	return out
}

// finish writes the files, or, for a dry run, only says so, and tells what was done. said is what
// there is to say before.
func finish(out io.Writer, said string, files []*replacement, dryRun bool) error {
	if _, err := io.WriteString(out, said); err != nil {
		return err
	}
	var text strings.Builder
	if !dryRun {
		if err := replaceAll(files); err != nil {
			return err
		}
	}
	for _, f := range files {
		switch {
		case dryRun:
			fmt.Fprintf(&text, "would be written: %s\n", f.path)
		case f.kept == "":
			fmt.Fprintf(&text, "written: %s\n", f.path)
		default:
			fmt.Fprintf(&text, "written: %s; what was there is %s\n", f.path, f.kept)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
