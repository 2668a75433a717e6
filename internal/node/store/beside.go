package store

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

// Beside is a second file in the directory of a Store, under the same lock, for what may be lost.
// Unlike the state it has no generation before it, and after a loss of power it may be the one that
// the last Write replaced; but it is whole. It shares nothing with the Store but the lock, so that
// each may be written while the other stalls. It is for one goroutine at a time, another one than
// the Store's if need be.
type Beside struct {
	fsys  FS
	lock  Lock
	path  string
	limit int
}

// Beside is the file PATH.name of at most limit bytes, of an open store. The file need not be
// there.
func (s *Store) Beside(name string, limit int) *Beside {
	return &Beside{fsys: s.fsys, lock: s.lock, path: s.path + "." + name, limit: limit}
}

// Path is the name of the file.
func (b *Beside) Path() string { return b.path }

// Read returns what was written last. The error wraps fs.ErrNotExist where there is no file,
// ErrDamaged where it has more than limit bytes, else what the file system returned.
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

// Write replaces the file in one step, synced. It fails when the store is closed or another process
// has the lock, also when that happens while it writes, and then leaves the file as it was.
func (b *Beside) Write(data []byte) error {
	if len(data) > b.limit {
		return b.error("write", b.path, fmt.Errorf("%d bytes are %w: want at most %d bytes", len(data), errTooLarge, b.limit))
	}
	if err := b.lock.Hold(); err != nil {
		return b.error("write", b.path, err)
	}
	name := b.path + suffixNew
	f, err := b.fsys.Create(name)
	if isExist(err) { // Left over by a process that ended while it wrote.
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
		_ = b.fsys.Remove(name) // it would take the space that the disk may be short of
		return b.error("write", name, err)
	}
	// The sync may have taken long. What is in the directory of another process is its own.
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
