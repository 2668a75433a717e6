package store

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Mark notes a time as the time of change of a file, which it creates. It is not synced: after a
// loss of power an earlier time may be there, or none. It needs no lock, and may wait for the disk.
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

// Marked is the time that Mark noted; the zero time if there is none.
func Marked(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}
