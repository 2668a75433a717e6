package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

// Modes of what others read: everyone may, and only the owner changes it.
const (
	shownDirMode  = 0o755
	shownFileMode = 0o644
)

// Shown are small files for readers in other mount namespaces. Each has a directory of its own,
// which can be mounted alone:
//
//	DIR/GROUP/NAME/FILE  the file
//	DIR/GROUP/NAME.new   the next one while it is written, outside of what a reader has mounted
//
// A file is replaced by a rename, so that a reader sees the old one or the new one, and inotify on
// its directory reports IN_MOVED_TO. Nothing is synced: the files end with their readers.
//
// A reader that can write to its directory, because it is privileged, gains nothing. No path leads
// out of DIR, a symbolic link or a directory in the place of FILE is not followed, and only regular
// files are read. Group and name are one element of a path each, without a dot; the caller has
// checked that. Shown is for one goroutine at a time.
type Shown struct {
	dir, file string
	limit     int
}

// NewShown returns the files of that name below a directory, of at most limit bytes each. Nothing
// is made yet.
func NewShown(dir, file string, limit int) *Shown { return &Shown{dir, file, limit} }

// Dir is the directory of one file.
func (s *Shown) Dir(group, name string) string { return path.Join(s.dir, group, name) }

// Write replaces a file. With its directory it makes those that are missing.
func (s *Shown) Write(group, name string, data []byte) error {
	if len(data) > s.limit {
		return fmt.Errorf("write %s: %d bytes are %w: want at most %d bytes", s.Dir(group, name), len(data), errTooLarge, s.limit)
	}
	return s.within(true, func(root *os.Root) error {
		for _, dir := range []string{group, path.Join(group, name)} {
			if err := root.Mkdir(dir, shownDirMode); err != nil && !isExist(err) {
				return err
			}
			if err := root.Chmod(dir, shownDirMode); err != nil { // Whatever the umask is.
				return err
			}
		}
		next := path.Join(group, name+suffixNew)
		if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // Left over.
			return err
		}
		f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|careful, shownFileMode)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err == nil {
			err = f.Chmod(shownFileMode)
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = root.Rename(next, path.Join(group, name, s.file))
		}
		if err != nil {
			_ = root.Remove(next) // It would take the space that may be short.
		}
		return err
	})
}

// Read returns a file. The error wraps fs.ErrNotExist if there is none, ErrNotRegular for anything
// else of that name, and ErrDamaged if it has more than limit bytes.
func (s *Shown) Read(group, name string) (data []byte, err error) {
	err = s.within(false, func(root *os.Root) error {
		own, err := root.OpenRoot(path.Join(group, name)) // A link to the file of another one leads out of it.
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		f, err := own.OpenFile(s.file, os.O_RDONLY|careful, 0)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // Nothing was written.
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, ErrNotRegular)
		}
		data, err = bounded.Read("it", f, s.limit)
		if errors.Is(err, bounded.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	})
	return data, err
}

// List returns the names that have a directory, by group, ascending. Without DIR there are none.
// What has no FILE, and no next one, was not written here and is not listed: DIR may be one that
// others use, by mistake.
func (s *Shown) List() (map[string][]string, error) {
	all := map[string][]string{}
	err := s.within(false, func(root *os.Root) error {
		groups, err := fs.ReadDir(root.FS(), ".")
		for _, group := range groups {
			if !group.IsDir() {
				continue
			}
			names, written, failed := s.names(root, group.Name())
			if err = errors.Join(err, failed); written {
				all[group.Name()] = names
			}
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && len(all) == 0 {
		err = nil
	}
	return all, err
}

// names are the directories of a group. written reports whether Write has made any of what is
// there.
func (s *Shown) names(root *os.Root, group string) (names []string, written bool, err error) {
	entries, err := fs.ReadDir(root.FS(), group)
	names = []string{}
	for _, e := range entries {
		if !e.IsDir() {
			written = written || strings.HasSuffix(e.Name(), suffixNew)
			continue
		}
		names = append(names, e.Name())
		_, missing := root.Lstat(path.Join(group, e.Name(), s.file))
		written = written || missing == nil
	}
	if errors.Is(err, fs.ErrNotExist) { // It was removed in this moment.
		err = nil
	}
	return names, written, err
}

// Remove removes everything of a group.
func (s *Shown) Remove(group string) error {
	err := s.within(false, func(root *os.Root) error { return root.RemoveAll(group) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// within calls do with the directory, which is opened for each call: it may have been replaced
// since the last one.
func (s *Shown) within(create bool, do func(*os.Root) error) error {
	if create {
		if err := os.MkdirAll(s.dir, shownDirMode); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // It was opened for reading.
	return do(root)
}
