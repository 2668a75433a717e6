// Package store keeps one file, the agent's state, so that it is never lost and never half written.
// It does not interpret the bytes: the caller of Open passes a function that detects damaged ones.
//
// # Files
//
// Beside the file PATH there are, in the same directory,
//
//	PATH.previous   the generation before, whole
//	PATH.new        the generation that is being written; means nothing to a reader
//	PATH.old        a second name of PATH while it becomes PATH.previous; means nothing either
//	PATH.damaged-N  a PATH that was found damaged, kept for people to look at
//	PATH.kept-N     a copy that Keep made, for people too
//	PATH.history    a file that Beside keeps, and PATH.history.new while it is written; not the state's
//	PATH.lock       locked by the process that has the store open; never removed
//
// # Lock
//
// Two agents that write one file would each undo what the other one promised, so only one process at a
// time has the store open. It locks two things with flock(2): PATH.lock, which has
// its process id, and the directory. The lock of the file alone can be lost unnoticed: it
// belongs to an inode, and after "rm PATH.lock" a second agent makes another file and locks
// that. The lock of the directory is in its way, even when everything in the directory is
// removed. A consequence: each state needs a directory of its own.
//
// Both locks end with the process, also when it is killed or the power fails, so that none is
// ever left over. After it has locked, and again before every Write and Keep, the process
// proves that the names still lead to what it locked. If they do not, it makes PATH.lock
// again and locks what has the names now; where another process was faster the Write fails
// with ErrLocked and changes nothing. So the agent stays the only one also when the directory
// is moved away: a second agent may start in a new one, and the first then writes no more. One case
// remains: another directory takes its place between this proof and the last rename of the same
// Write, some milliseconds, and an agent starts there.
//
// On NFS flock(2) does not reach other machines; the lock is for one agent on each machine.
//
// # Writing
//
// One Write is these steps, in this order:
//
//  1. create PATH.new, write, sync, close: the new generation is on the disk before any
//     name that counts leads to it. A PATH.new that is left over is removed first. After a
//     failed sync the file is removed: a kernel may call pages clean that it could not
//     write, so a second sync of the same file proves nothing.
//  2. link PATH to PATH.old and rename that to PATH.previous: one rename takes the place of
//     the generation before the last, so that there is no moment without a previous one. It is
//     a link, and not a rename of PATH, because PATH has to be there at every moment.
//  3. rename PATH.new to PATH.
//  4. sync the directory.
//
// Nothing is promised of steps 2 and 3 before step 4 ends: after a loss of power each of the
// names may be what it was or what it became, one without the other. Whichever they are,
// PATH is the generation before or the one after, whole, and PATH.previous is the one
// before or the one before that, whole. A failure up to step 3 leaves PATH as it was. A
// failure of step 4 is ErrUncertain, until a Write succeeds; PATH then has something that
// was never acknowledged, so that this Write leaves PATH.previous alone.
//
// # Reading
//
// Open takes PATH if it is whole. If it is damaged or missing Open takes PATH.previous, and
// if that is not whole either, it fails with advice; only if neither exists, it starts with
// nothing. It changes neither of them, so opening again gives the same answer.
// A damaged PATH stays where it is until the first Write, which gives it the name
// PATH.damaged-N, and syncs that, before step 3 takes PATH away from it.
//
// What cannot be read (not permitted, an error of the disk, a symbolic link, a directory) is
// not called damaged: it may be whole, and newer than PATH.previous. Open fails. The same
// goes for what is whole but not for this program (ErrForeign).
//
// Open syncs the directory before it reads: what it returns is durable even when the process
// that wrote it was killed between steps 3 and 4.
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
	// limit is how many bytes a file has at most.
	limit int
	lock  Lock // nil when closed
	keep  keeping
	// keptAs is the name for a damaged file, when keep is keepAsDamaged.
	keptAs string
	// uncertain means that PATH may come back after a loss of power as something that was not
	// acknowledged.
	uncertain bool
}

// keeping is what has to happen to PATH before a new generation takes its place.
type keeping int

const (
	// keepNothing: PATH is missing, already has its second name, or was never acknowledged.
	keepNothing keeping = iota
	keepAsPrevious
	keepAsDamaged
)

// Open locks the file and reads what was written last, as Loaded describes. The directory is
// made if it is missing. limit is how many bytes a file has at most: Write takes no more, and a
// file with more was not written here and counts as damaged. validate returns an error for
// bytes that are damaged, with the reason, and one that wraps ErrForeign for bytes that are whole
// but cannot be used here; it must accept everything that is handed to Write, and must not keep
// the slice. Of a file above limit it gets the first limit+1 bytes: they tell a newer form, which
// may have a larger bound, from a damaged file.
//
// The errors are of type *Error; they wrap ErrLocked, ErrDamaged or ErrForeign where those
// are the reason, otherwise the error of the file system.
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

// Write replaces the file: when it returns nil, data is what the next Open returns, whatever
// happens to the power. It keeps the generation before as PATH.previous. data stays the
// caller's.
//
// After an error the store can be used on, and Write may be called again with the same or
// other data. The next Open returns what was there before this Write, unless the error wraps
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
		// A half-written file would hold the space that the disk may be short of. If it cannot
		// be removed the next Write reports it.
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

// replace is steps 1 to 3 of the package comment.
func (s *Store) replace(data []byte) error {
	if err := s.writeNew(data); err != nil {
		return err
	}
	var err error // PATH gets a second name.
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

// writeNew puts data into PATH.new, synced.
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

// keepAsPrevious may run twice for the same PATH, when the rename of step 3 fails. The
// second time PATH.old and PATH.previous are the same file, a rename does nothing, and
// PATH.old stays until the next time.
func (s *Store) keepAsPrevious() error {
	old, previous := s.path+suffixOld, s.path+suffixPrevious
	err := s.createNew(old, func() error { return s.fsys.Link(s.path, old) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // PATH was removed while the store was open; the new one is all there is to keep
	}
	if err != nil {
		return s.error("link "+s.path+" to "+old, err)
	}
	if err := s.fsys.Rename(old, previous); err != nil {
		return s.error("rename "+old+" to "+previous, err)
	}
	return nil
}

// keepAsDamaged syncs the directory, so that the new PATH cannot be on the disk without the
// other name of the old one.
func (s *Store) keepAsDamaged() error {
	// Open found the name free and the store is locked: if it is taken an earlier Write took it.
	if err := s.fsys.Link(s.path, s.keptAs); err != nil && !isExist(err) {
		return s.error("link "+s.path+" to "+s.keptAs, err)
	}
	if err := s.fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		return s.error("sync directory "+filepath.Dir(s.path), err)
	}
	s.keep = keepNothing
	return nil
}

// createNew runs create, which makes name. If a file of an earlier attempt is in the way, it is removed
// first.
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

// Close lets go of the lock. Closing twice is no error.
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
	return fmt.Errorf("%w: want at most %d bytes", errTooLarge, s.limit)
}

func (s *Store) error(op string, err error) error {
	if s.uncertain {
		err = fmt.Errorf("%w (%w)", cause(err), ErrUncertain)
	}
	return newError(s.path, op, err)
}
