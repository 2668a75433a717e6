package replacement

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

	"github.com/paddock-project/paddock/internal/node/store"
)

// newSuffix is the suffix of a file while it is being written.
const newSuffix = ".paddock-new"

// lockSuffix is the suffix of the file that an agent locks while it has its state open.
const lockSuffix = ".lock"

// writeBeside writes a new file, synced, beside the file that it will replace, and returns its
// name. It changes no existing file.
func writeBeside(fsys store.FS, path string, data []byte) (string, error) {
	name := path + newSuffix
	f, err := fsys.Create(name)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		if n > maxKept {
			return "", fmt.Errorf("%s: files up to %s are left over from writing it: remove them", path, name)
		}
		name = path + newSuffix + "-" + strconv.Itoa(n)
		f, err = fsys.Create(name)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write %s: %w", name, err), fsys.Remove(name))
	}
	return name, nil
}

// rename gives the new file the name of the old one. The change is durable when rename returns nil.
func rename(fsys store.FS, beside, path string) error {
	if err := fsys.Rename(beside, path); err != nil {
		return errors.Join(err, fsys.Remove(beside))
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// exclusively calls write while no agent can open any of the files, and no process has one of them
// open. If a process has one open, exclusively returns an error and does not call write.
//
// It locks the files that an agent locks: an agent's own states, and every file that has a lock
// beside it. An agent locks a whole directory, so if two files are in one directory, only the first
// is locked. notOpen checks the other.
func exclusively(fsys store.FS, proc string, files []*File, write func() error) (err error) {
	locked := map[string]io.Closer{}
	defer func() {
		for _, l := range locked {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, f := range files {
		dir := realPath(filepath.Dir(f.Path))
		name := filepath.Join(dir, filepath.Base(f.Path)) + lockSuffix
		info, err := os.Stat(name)
		if there := err == nil && info.Mode().IsRegular(); locked[dir] != nil || !there && !f.Agent {
			continue
		}
		l, err := fsys.Lock(name)
		if err != nil {
			return fmt.Errorf("%s: %w: stop that process first", f.Path, err)
		}
		locked[dir] = l
	}
	for _, f := range files {
		if err := notOpen(proc, f.Path); err != nil {
			return err
		}
	}
	return write()
}

// notOpen returns an error if a running process has the file or its lock open. It also returns an
// error if the file is in the root directory of a running kubelet, which would overwrite the file
// with what it has in memory. Processes of other users cannot be checked, and are not checked.
func notOpen(proc, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir := realPath(filepath.Dir(path))
	path = filepath.Join(dir, filepath.Base(path))
	processes, err := os.ReadDir(proc)
	if err != nil {
		return nil //nolint:nilerr // without /proc nothing can be known
	}
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil || p.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		at := filepath.Join(proc, p.Name())
		if hasOpen(at, path) || hasOpen(at, path+lockSuffix) {
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

// kubeletRoot returns the root directory of a running kubelet.
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
