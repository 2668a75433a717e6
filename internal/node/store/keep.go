package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
)

// Keep writes a copy of data beside the file as PATH.kept-N, syncs it, and returns its name. It is
// for a state of which a part will not be written again. The copy is for people: no program reads
// it. The errors are of type *Error.
func (s *Store) Keep(data []byte) (string, error) {
	if s.lock == nil {
		return "", s.error("keep a copy", fs.ErrClosed)
	}
	if err := s.lock.Hold(); err != nil {
		return "", s.error("lock "+s.path+suffixLock, err)
	}
	for n := 1; ; n++ {
		name := s.path + suffixKept + strconv.Itoa(n)
		file, err := s.fsys.Create(name)
		switch {
		case errors.Is(err, fs.ErrExist) && n < maxKept:
			continue
		case err != nil:
			return "", s.error("keep a copy as "+name, err)
		}
		_, err = file.Write(data)
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err == nil {
			err = s.fsys.SyncDir(filepath.Dir(s.path))
		}
		if err != nil {
			_ = s.fsys.Remove(name) // the first error is the one to report
			return "", s.error("keep a copy as "+name, err)
		}
		return name, nil
	}
}

const (
	suffixKept = ".kept-"
	// maxKept bounds the space that the copies use. More copies would not help to find a fault.
	maxKept = 99
)
