package store

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

// Beside is a second file in the directory of a Store, under the same lock, for data that may be
// lost. Unlike the state it keeps no previous generation, and after a power failure it may be the
// version that the last Write replaced. It is always whole. It shares nothing but the lock with the
// Store, so each of them can be written while the other stalls. A Beside is for one goroutine at a
// time, which need not be the one that uses the Store.
type Beside struct {
	fsys  FS
	lock  Lock
	path  string
	limit int
}

// Beside returns the file PATH.name, of at most limit bytes, for an open store. The file need not
// exist.
func (s *Store) Beside(name string, limit int) *Beside {
	return &Beside{fsys: s.fsys, lock: s.lock, path: s.path + "." + name, limit: limit}
}

// Path returns the path of the file.
func (b *Beside) Path() string { return b.path }

// Read returns the last content written. The error wraps fs.ErrNotExist if there is no file and
// ErrDamaged if the file has more than limit bytes. Otherwise it wraps the error of the file
// system.
func (b *Beside) Read() ([]byte, error) {
	f, err := b.fsys.Open(b.path)
	if err != nil {
		return nil, b.error("open", b.path, err)
	}
	data, err := bounded.Read("it", f, b.limit)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if errors.Is(err, bounded.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, b.error("read", b.path, err)
	}
	return data, nil
}

// Write replaces the file in one step and syncs its content. It fails if the store is closed or
// another process has the lock, even if that happens during the write. It then leaves the file as
// it was.
func (b *Beside) Write(data []byte) error {
	if len(data) > b.limit {
		return b.error("write", b.path, fmt.Errorf("%d bytes are %w: expected at most %d bytes", len(data), errTooLarge, b.limit))
	}
	if err := b.lock.Hold(); err != nil {
		return b.error("write", b.path, err)
	}
	name := b.path + suffixNew
	f, err := b.fsys.Create(name)
	if isExist(err) { // Left over from a process that ended during a write.
		if err := b.fsys.Remove(name); err != nil {
			return b.error("remove the leftover file", name, err)
		}
		f, err = b.fsys.Create(name)
	}
	if err != nil {
		return b.error("create", name, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = b.fsys.Remove(name) // it would use space that the disk may be short of
		return b.error("write", name, err)
	}
	// The sync may have taken long. A directory that another process has locked must not be
	// changed.
	if err := b.lock.Hold(); err != nil {
		return b.error("write", b.path, err)
	}
	if err := b.fsys.Rename(name, b.path); err != nil {
		_ = b.fsys.Remove(name) // as above
		return b.error("rename", name, err)
	}
	return nil
}

func (b *Beside) error(op, name string, err error) error {
	return fmt.Errorf("%s %s: %w", op, name, cause(err))
}
