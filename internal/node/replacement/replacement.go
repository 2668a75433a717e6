package replacement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/node/store"
)

// File is a file that will be written.
type File struct {
	Path string
	Data []byte
	// Was is the content that was read before. If nil, the file was not read.
	Was []byte
	// Agent is true for a state of Paddock's agent, which locks the state while it runs.
	Agent bool
	// Kept is the name under which the old file stays after it was replaced. If empty, there was no
	// old file.
	Kept string

	beside string // where Data is until the file is replaced
}

// kept matches the names of old files.
var kept = regexp.MustCompile(`\.before-[1-9][0-9]?$`)

// IsKept reports whether a file has the name of an old one that All kept. It describes the past, so
// whoever reads a whole directory leaves it out.
func IsKept(name string) bool { return kept.MatchString(name) }

// maxKept is the number of originals that are kept of one file. A user who has that many is in a
// loop.
const maxKept = 99

// proc is the directory that lists the processes.
const proc = "/proc"

// All writes files, each in one durable step, and keeps the old ones beside them, as NAME.before-1
// and so on. It writes all new files before it replaces the first old one. If a process has one of
// the files open, or if one was changed since it was read, All returns an error and replaces
// nothing.
func All(fsys store.FS, files []*File) error {
	for _, f := range files {
		if err := writable(f.Path); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	return exclusively(fsys, proc, files, func() error {
		for i, f := range files {
			var err error
			if f.Was != nil {
				now, reading := content(fsys, f.Path, len(f.Was)+1)
				if err = reading; err == nil && !bytes.Equal(now, f.Was) {
					err = fmt.Errorf("%s: it was changed after it was read: run the command again", f.Path)
				}
			}
			if err == nil {
				f.beside, err = writeBeside(fsys, f.Path, f.Data)
			}
			if err == nil {
				err = f.keep(fsys)
			}
			if err != nil {
				return errors.Join(err, discard(fsys, files[:i+1]))
			}
		}
		for i, f := range files {
			if err := rename(fsys, f.beside, f.Path); err != nil {
				return errors.Join(err, discard(fsys, files[i+1:]))
			}
		}
		return nil
	})
}

// discard removes new files that will not replace old ones.
func discard(fsys store.FS, files []*File) error {
	var errs []error
	for _, f := range files {
		if f.beside == "" {
			continue
		}
		if err := fsys.Remove(f.beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keep gives the old file a second name.
func (f *File) keep(fsys store.FS) error {
	there, err := fsys.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = there.Close() // Nothing was read: Open returned, so it is a regular file.
	for n := 1; n <= maxKept; n++ {
		name := f.Path + ".before-" + strconv.Itoa(n)
		err := fsys.Link(f.Path, name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		f.Kept = name
		return err
	}
	return fmt.Errorf("%s: %d originals of it are kept already, as .before-1 and so on; remove some", f.Path, maxKept)
}

// State writes a state of Paddock in one durable step, and does not keep the old file. It replaces
// only states of Paddock, because any other file may be a user's work.
func State(fsys store.FS, name string, data []byte) error {
	if err := writable(name); err != nil {
		return err
	}
	const enough = 64 // bytes; enough for every format that begins with its name
	there, err := content(fsys, name, enough)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(there) > 0 && !statefile.Begins(there) {
		return fmt.Errorf("%s exists and is not a state of Paddock: nothing was written; name another file", name)
	}
	return exclusively(fsys, proc, []*File{{Path: name}}, func() error {
		beside, err := writeBeside(fsys, name, data)
		if err != nil {
			return err
		}
		return rename(fsys, beside, name)
	})
}

// content returns the beginning of a file, at most `most` bytes.
func content(fsys store.FS, path string, most int) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)))
	return data, errors.Join(err, f.Close())
}

// writable returns an error that names the obstacle to a file with that name. The error of the
// operating system would be about the temporary file.
func writable(name string) error {
	dir := filepath.Dir(name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: there is no directory %s to write into: create it (mkdir -p %s), or name another directory", name, dir, dir)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it, such as %s", name, filepath.Join(name, "node.json"))
	}
	return nil
}
