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

// Modes of files for other readers: everyone can read them, and only the owner can change them.
const (
	shownDirMode  = 0o755
	shownFileMode = 0o644
)

// Shown is a set of small files for readers in other mount namespaces. Each file has a directory of
// its own, which can be mounted alone:
//
//	DIR/GROUP/NAME/FILE  the file
//	DIR/GROUP/NAME.new   the next one while it is written, outside of what a reader has mounted
//
// A file is replaced by a rename. So a reader sees the old or the new file, and inotify on its
// directory reports IN_MOVED_TO. Nothing is synced: the files are not needed after their readers
// end.
//
// A reader that can write to its directory, because it is privileged, gains nothing. No path leads
// out of DIR. A symbolic link or a directory in place of FILE is not followed, and only regular
// files are read. Group and name are each one path element without a dot, which the caller has
// checked. Shown is for one goroutine at a time.
type Shown struct {
	dir, file string
	limit     int
}

// NewShown returns the set of files with the given name below dir, of at most limit bytes each. It
// creates nothing.
func NewShown(dir, file string, limit int) *Shown { return &Shown{dir, file, limit} }

// Dir returns the directory of one file.
func (s *Shown) Dir(group, name string) string { return path.Join(s.dir, group, name) }

// Write replaces a file. It creates missing directories.
func (s *Shown) Write(group, name string, data []byte) error {
	if len(data) > s.limit {
		return fmt.Errorf("write %s: %d bytes are %w: expected at most %d bytes", s.Dir(group, name), len(data), errTooLarge, s.limit)
	}
	return s.within(true, func(root *os.Root) error {
		for _, dir := range []string{group, path.Join(group, name)} {
			if err := root.Mkdir(dir, shownDirMode); err != nil && !isExist(err) {
				return err
			}
			if err := root.Chmod(dir, shownDirMode); err != nil { // Regardless of the umask.
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
			_ = root.Remove(next) // It would use space that the disk may be short of.
		}
		return err
	})
}

// Read returns the content of a file. The error wraps fs.ErrNotExist if there is none,
// ErrNotRegular if the name refers to something else, and ErrDamaged if the file has more than
// limit bytes.
func (s *Shown) Read(group, name string) (data []byte, err error) {
	err = s.within(false, func(root *os.Root) error {
		own, err := root.OpenRoot(path.Join(group, name)) // A symbolic link to the file of another name leads out of this root and fails.
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

// List returns the names that have a directory, by group and in ascending order. If DIR does not
// exist, it returns an empty map. A group with neither a FILE nor a NAME.new was not written by
// Shown and is not listed: by mistake, others may use DIR too.
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

// names returns the directories of a group. written reports whether Write created anything in the
// group.
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
	if errors.Is(err, fs.ErrNotExist) { // It was removed in the meantime.
		err = nil
	}
	return names, written, err
}

// Remove removes a group and all files in it.
func (s *Shown) Remove(group string) error {
	err := s.within(false, func(root *os.Root) error { return root.RemoveAll(group) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// within calls do with DIR as the root. It opens DIR for each call, because DIR may have been
// replaced since the last one.
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
