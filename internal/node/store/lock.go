package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// osLock consists of two flock(2) locks. The lock on the file is the visible one, and the file
// names the process. The lock on the directory is needed because the file can be removed: a second
// agent would create another file and find it unlocked. The directory cannot be removed without the
// state in it.
type osLock struct {
	name      string
	mu        sync.Mutex
	closed    bool
	file, dir *os.File // nil when not locked
}

func (osFS) Lock(name string) (Lock, error) {
	l := &osLock{name: name}
	if err := l.Hold(); err != nil {
		_ = l.Close() // the first error is the one to report
		return nil, err
	}
	return l, nil
}

// Hold locks the file first, so that a second agent can report which process has the lock.
func (l *osLock) Hold() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fs.ErrClosed
	}
	if err := l.holdFile(); err != nil {
		return err
	}
	return l.holdDir()
}

// attempts bounds how often Hold follows a name that refers to another file each time. Whoever
// replaces the file faster than that wants to keep agents from running.
const attempts = 10

func (l *osLock) holdFile() error {
	for range attempts {
		if leadsTo(l.name, l.file) {
			return nil
		}
		f, err := openRegular(l.name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return err
		}
		if err := flock(f); err != nil {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = fmt.Errorf("%w by another process", ErrLocked)
				text := make([]byte, 20)
				n, _ := f.ReadAt(text, 0) // io.EOF is expected; a file that cannot be read names no process
				if pid, unnamed := strconv.Atoi(string(bytes.TrimSpace(text[:n]))); unnamed == nil {
					err = fmt.Errorf("%w by process %d", ErrLocked, pid)
				}
			}
			_ = f.Close() // nothing was written
			return err
		}
		l.file = swap(l.file, f)
		// The process id is information for people. The agent must start even if the disk is full.
		if err := f.Truncate(0); err == nil {
			_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
	}
	return fmt.Errorf("%w: another process replaces the file repeatedly", ErrLocked)
}

func (l *osLock) holdDir() error {
	dir := filepath.Dir(l.name)
	for range attempts {
		if leadsTo(dir, l.dir) {
			return nil
		}
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := flock(d); err != nil {
			_ = d.Close() // nothing was written
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return fmt.Errorf("directory %s is %w by another process, which uses another lock file there or whose lock file was removed", dir, ErrLocked)
			}
			return fmt.Errorf("directory %s: %w", dir, err)
		}
		l.dir = swap(l.dir, d)
	}
	return fmt.Errorf("%w: another process replaces directory %s repeatedly", ErrLocked, dir)
}

// leadsTo reports whether name refers to the open file f. A symbolic link to a directory counts as
// the directory. For files, openRegular does not follow links.
func leadsTo(name string, f *os.File) bool {
	if f == nil {
		return false
	}
	there, err := os.Stat(name)
	if err != nil {
		return false
	}
	assigned, err := f.Stat()
	return err == nil && os.SameFile(there, assigned)
}

// swap closes old, which unlocks it, and returns f.
func swap(old, f *os.File) *os.File {
	if old != nil {
		_ = old.Close() // nothing that matters was written
	}
	return f
}

// Close unlocks the file and the directory.
func (l *osLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, f := range []*os.File{l.dir, l.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	l.dir, l.file = nil, nil
	return errors.Join(errs...)
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
