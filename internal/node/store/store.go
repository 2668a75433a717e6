// Package store keeps one file, the agent's state, so that it is never lost and never half written.
// It does not interpret the bytes: the caller of Open passes a function that detects damaged ones.
//
// # Files
//
// Beside the file PATH there are, in the same directory,
//
//	PATH.previous   the generation before, intact
//	PATH.new        the generation that is being written; means nothing to a reader
//	PATH.old        a second name of PATH while it becomes PATH.previous; means nothing either
//	PATH.damaged-N  a PATH that was found damaged, kept for people to look at
//	PATH.kept-N     a copy that Keep made, for people too
//	PATH.history    a file that Beside keeps, and PATH.history.new while it is written; not part of the state
//	PATH.lock       locked by the process that has the store open; never removed
//
// # Lock
//
// If two agents wrote one file, each would undo what the other one promised. So only one process at
// a time has the store open. It locks two things with flock(2): PATH.lock, which contains its
// process id, and the directory. The lock of the file alone can be lost unnoticed: it belongs to an
// inode, and after "rm PATH.lock" a second agent would create and lock another file. The lock of
// the directory prevents this, even if everything in the directory is removed. As a consequence,
// each state needs its own directory.
//
// Both locks end with the process, even if it is killed or the power fails, so no lock is ever left
// over. After it has locked, and again before every Write and Keep, the process checks that the
// names still refer to what it locked. If they do not, it creates PATH.lock again and locks what
// has the names now. If another process was faster, the Write fails with ErrLocked and changes
// nothing. So two agents never write the same state, even if the directory is moved away: a second
// agent may start in a new directory, and the first one then no longer writes. One case remains:
// another directory takes the place of the locked one between this check and the last rename of the
// same Write, which are milliseconds apart, and an agent starts there.
//
// On NFS flock(2) does not reach other machines; the lock is for one agent on each machine.
//
// # Writing
//
// One Write is these steps, in this order:
//
//  1. create PATH.new, write, sync, close: the new generation is on the disk before PATH leads to
//     it. A leftover PATH.new is removed first. After a failed sync the file is removed: a kernel
//     may mark pages as clean that it could not write, so a second sync of the same file proves
//     nothing.
//  2. link PATH to PATH.old and rename that to PATH.previous: one rename replaces the generation
//     before the last, so that a previous one exists at every moment. It is a link, and not a
//     rename of PATH, because PATH has to exist at every moment.
//  3. rename PATH.new to PATH.
//  4. sync the directory.
//
// The effects of steps 2 and 3 are not durable before step 4 ends: after a power failure each of
// the two names can lead to its old or to its new file, independently of the other. In every case
// PATH is the generation before the Write or the one after it, intact, and PATH.previous is the one
// before it or the one before that, intact. A failure up to step 3 leaves PATH as it was. A failure
// of step 4 is ErrUncertain, until a Write succeeds. PATH then has something that was never
// acknowledged, so this Write does not touch PATH.previous.
//
// # Reading
//
// Open reads PATH if it is intact. If PATH is damaged or missing, Open reads PATH.previous. If that
// is not intact either, Open fails with advice. Only if neither file exists, it starts with an
// empty state. It changes neither of them, so another Open gives the same answer. A damaged PATH
// stays where it is until the first Write, which gives it the name PATH.damaged-N, and syncs that,
// before step 3 replaces PATH.
//
// A file that cannot be read (no permission, an error of the disk, a symbolic link, a directory) is
// not damaged: it may be intact, and newer than PATH.previous. So Open fails. The same applies to a
// file that is intact but not usable by this program (ErrForeign).
//
// Open syncs the directory before it reads, so what it returns is durable even if the process that
// wrote it was killed between steps 3 and 4.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Store is an open, locked file. It is for one goroutine at a time.
type Store struct {
	fsys FS
	path string
	// limit is the maximum size of a file in bytes.
	limit int
	lock  Lock // nil when closed
	keep  keeping
	// keptAs is the name for the damaged file if keep is keepAsDamaged.
	keptAs string
	// uncertain means that after a power failure PATH may contain bytes that were not acknowledged.
	uncertain bool
}

// keeping describes what has to happen to PATH before a new generation replaces it.
type keeping int

const (
	// keepNothing means that PATH is missing, already has its second name, or was never
	// acknowledged.
	keepNothing keeping = iota
	keepAsPrevious
	keepAsDamaged
)

// Open locks the file and reads the last content written, as Loaded describes. It creates the
// directory if it is missing. limit is the maximum size of a file in bytes: Write rejects more, and
// a larger file was not written by a Store and counts as damaged. validate returns an error with
// the reason for bytes that are damaged, and an error that wraps ErrForeign for bytes that are
// whole but cannot be used here. It must accept everything that is passed to Write, and must not
// keep the slice. For a file above limit it gets the first limit+1 bytes, which are enough to
// distinguish a newer format, with a possibly larger limit, from a damaged file.
//
// The errors are of type *Error. They wrap ErrLocked, ErrDamaged or ErrForeign if that is the
// reason, and the error of the file system otherwise.
func Open(fsys FS, path string, limit int, validate func([]byte) error) (*Store, Loaded, error) {
	path = filepath.Clean(path)
	dir := filepath.Dir(path)
	fail := func(op string, err error) (*Store, Loaded, error) {
		return nil, Loaded{}, newError(path, op, err)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return fail("make directory "+dir, err)
	}
	lock, err := fsys.Lock(path + suffixLock)
	if err != nil {
		return fail("lock "+path+suffixLock, err)
	}
	s := &Store{fsys: fsys, path: path, limit: limit, lock: lock}
	loaded, err := s.load(validate)
	if err != nil {
		_ = lock.Close() // the first error is the one to report
		return nil, Loaded{}, err
	}
	return s, loaded, nil
}

// Write replaces the file. If it returns nil, the next Open returns data, even after a power
// failure. It keeps the previous generation as PATH.previous. The caller keeps ownership of data.
//
// After an error the store remains usable, and Write may be called again with the same or other
// data. The next Open returns the content from before this Write, unless the error wraps
// ErrUncertain. The errors are of type *Error.
func (s *Store) Write(data []byte) error {
	if s.lock == nil {
		return s.error("write", fs.ErrClosed)
	}
	if len(data) > s.limit {
		return s.error("write", fmt.Errorf("%d bytes are %w", len(data), s.tooLarge()))
	}
	if err := s.lock.Hold(); err != nil {
		return s.error("lock "+s.path+suffixLock, err)
	}
	if err := s.replace(data); err != nil {
		// A half-written file would use space that the disk may be short of. If it cannot be
		// removed, the next Write reports that.
		_ = s.fsys.Remove(s.path + suffixNew)
		return err
	}
	s.keep = keepNothing
	if err := s.fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		s.uncertain = true
		return s.error("sync directory "+filepath.Dir(s.path), err)
	}
	s.keep = keepAsPrevious
	s.uncertain = false
	return nil
}

// replace does steps 1 to 3 of the package comment.
func (s *Store) replace(data []byte) error {
	if err := s.writeNew(data); err != nil {
		return err
	}
	var err error // of giving PATH a second name
	switch s.keep {
	case keepNothing:
	case keepAsPrevious:
		err = s.keepAsPrevious()
	case keepAsDamaged:
		err = s.keepAsDamaged()
	}
	if err != nil {
		return err
	}
	if err := s.fsys.Rename(s.path+suffixNew, s.path); err != nil {
		return s.error("rename "+s.path+suffixNew+" to "+s.path, err)
	}
	return nil
}

// writeNew writes data to PATH.new and syncs it.
func (s *Store) writeNew(data []byte) error {
	name := s.path + suffixNew
	var f File
	err := s.createNew(name, func() (err error) {
		f, err = s.fsys.Create(name)
		return err
	})
	if err != nil {
		return s.error("create "+name, err)
	}
	op := "write "
	_, err = f.Write(data)
	if err == nil {
		op, err = "sync ", f.Sync()
	}
	if closing := f.Close(); err == nil && closing != nil {
		op, err = "close ", closing
	}
	if err != nil {
		return s.error(op+name, err)
	}
	return nil
}

// keepAsPrevious links PATH to PATH.old and renames that to PATH.previous. It may run twice for the
// same PATH, if the rename of step 3 fails. The second time PATH.old and PATH.previous are the same
// file, so the rename does nothing, and PATH.old stays until the next call.
func (s *Store) keepAsPrevious() error {
	old, previous := s.path+suffixOld, s.path+suffixPrevious
	err := s.createNew(old, func() error { return s.fsys.Link(s.path, old) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // PATH was removed while the store was open, so there is nothing to keep
	}
	if err != nil {
		return s.error("link "+s.path+" to "+old, err)
	}
	if err := s.fsys.Rename(old, previous); err != nil {
		return s.error("rename "+old+" to "+previous, err)
	}
	return nil
}

// keepAsDamaged gives the damaged PATH its other name. It syncs the directory, so that the new PATH
// cannot reach the disk before the other name of the old one.
func (s *Store) keepAsDamaged() error {
	// Open found the name unused, and the store is locked. If the name exists now, an earlier Write
	// made it.
	if err := s.fsys.Link(s.path, s.keptAs); err != nil && !isExist(err) {
		return s.error("link "+s.path+" to "+s.keptAs, err)
	}
	if err := s.fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		return s.error("sync directory "+filepath.Dir(s.path), err)
	}
	s.keep = keepNothing
	return nil
}

// createNew runs create, which creates name. If a file from an earlier attempt exists, createNew
// removes it and runs create again.
func (s *Store) createNew(name string, create func() error) error {
	err := create()
	if !isExist(err) {
		return err
	}
	if err := s.fsys.Remove(name); err != nil {
		return fmt.Errorf("remove the leftover file: %w", cause(err))
	}
	return create()
}

// Close releases the lock. It is not an error to call it twice.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	if err != nil {
		return s.error("unlock "+s.path+suffixLock, err)
	}
	return nil
}

func (s *Store) tooLarge() error {
	return fmt.Errorf("%w: expected at most %d bytes", errTooLarge, s.limit)
}

func (s *Store) error(op string, err error) error {
	if s.uncertain {
		err = fmt.Errorf("%w (%w)", cause(err), ErrUncertain)
	}
	return newError(s.path, op, err)
}
