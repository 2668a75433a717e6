package store

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Mark stores a time as the modification time of a file, which it creates if it is missing. It does
// not sync: after a power failure the file may have an earlier time, or be missing. Mark needs no
// lock. It may block on the disk.
func Mark(path string, at time.Time) error {
	err := os.Chtimes(path, at, at)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(path, at, at))
}

// Marked returns the time that Mark stored, or the zero time if there is none.
func Marked(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}
