package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// careful is set for every file that is opened: symbolic links are not followed, and opening a
	// named pipe does not block.
	careful = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
)

// OS returns the file system of this machine. It creates directories with mode 0700 and files with
// mode 0600. Existing directories and files keep their mode. Locks are flock(2) locks, which end
// with the process, even if it is killed.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) MkdirAll(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := (osFS{}).MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !isExist(err) {
		return err
	}
	return osFS{}.SyncDir(parent)
}

func (osFS) Open(name string) (io.ReadCloser, error) {
	f, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openRegular(name string, flags int) (*os.File, error) {
	f, err := os.OpenFile(name, flags|careful, fileMode)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%w: it is a symbolic link", ErrNotRegular)
	case errors.Is(err, syscall.EISDIR):
		return nil, fmt.Errorf("%w: it is a directory", ErrNotRegular)
	case errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("%w: it is a socket or a device", ErrNotRegular)
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%w: it is a directory", ErrNotRegular)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: it is a pipe or a device (%s)", ErrNotRegular, info.Mode())
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|careful, fileMode)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Link(name, second string) error { return os.Link(name, second) }

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closing := d.Close(); err == nil {
		err = closing
	}
	return err
}
