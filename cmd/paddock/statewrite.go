package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/bounded"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/store"
)

// replacement is a file that is about to be written.
type replacement struct {
	path string
	data []byte
	// was is what the file had when it was read; nil if it was not.
	was []byte
	// agents tells that it is a state of Paddock's agent, which locks it while it runs.
	agents bool
	// beside is where data is until the file is replaced, and kept the name under which the file that was there
	// stays; empty if there was none.
	beside, kept string
}

// maxKept is how many originals are kept of one file.
const maxKept = 99

// replaceAll writes files, each in one step and durable, and keeps those that were there beside
// them, as NAME.before-1 and so on. It writes all of them before it replaces the first. A process
// that has one of them, or one that was changed since it was read, is an error before anything is touched.
func replaceAll(fsys store.FS, files []*replacement) error {
	for _, f := range files {
		if err := writable(f.path); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	return exclusively(fsys, "/proc", files, func() error {
		for i, f := range files {
			err := f.unchanged(fsys)
			if err == nil {
				f.beside, err = writeBeside(fsys, f.path, f.data)
			}
			if err == nil {
				err = f.keep(fsys)
			}
			if err != nil {
				return errors.Join(err, discard(fsys, files[:i+1]))
			}
		}
		for i, f := range files {
			if err := replace(fsys, f.beside, f.path); err != nil {
				return errors.Join(err, discard(fsys, files[i+1:]))
			}
		}
		return nil
	})
}

// unchanged returns an error if the file is not what it was when it was read.
func (f *replacement) unchanged(fsys store.FS) error {
	if f.was == nil {
		return nil
	}
	there, err := fsys.Open(f.path)
	if err != nil {
		return err
	}
	now, err := bounded.Read(f.path, there, maxFile)
	if err := errors.Join(err, there.Close()); err != nil {
		return err
	}
	if !bytes.Equal(now, f.was) {
		return fmt.Errorf("%s: it was changed after it was read: run the command again", f.path)
	}
	return nil
}

// discard removes what was written for nothing.
func discard(fsys store.FS, files []*replacement) error {
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

// toKubelet are the files of a node as they are about to be written into dir, or, without, in
// place of those that were read.
func toKubelet(files map[kubeletstate.Manager][]byte, dir string, read []stateText) []*replacement {
	var out []*replacement
	for _, m := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager} {
		data, has := files[m]
		if !has {
			continue
		}
		f := &replacement{path: filepath.Join(dir, m.FileName()), data: data}
		if i := slices.IndexFunc(read, func(t stateText) bool { return t.manager == m }); dir == "" && i >= 0 {
			f.path, f.was = read[i].name, read[i].data
		}
		out = append(out, f)
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
		if err := replaceAll(store.OS(), files); err != nil {
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
