// Package crashfs provides a file system in memory that can lose power, for tests of code that must
// survive that. It implements store.FS.
//
// It is harsher than a real file system may be. Crash keeps an arbitrary part of what was not
// synced, drawn from a seed:
//
//   - If a file was written after its last sync, its content is what was synced, all of
//     it, a prefix of it, or a prefix with zeros up to the full length.
//   - Each name in a directory that was not synced refers to what it referred to at the last sync
//     or at any time since then, independent of the other names. After a rename, the new name may
//     exist together with the old one, or neither may exist.
//   - A file whose Sync failed loses the data that was not on the disk, although a second Sync
//     reports success.
//
// Every call is an operation. Operations are numbered from 1. Inject decides which operations fail
// and with which error. CrashAfter stops the machine after a number of operations. The methods for
// tests (Crash, Inject, Ops, Peek, Put and so on) do not count as operations.
//
// An FS is safe for concurrent use.
package crashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/paddock-project/paddock/internal/node/store"
)

// ErrCrashed is returned by every operation after the power is cut.
var ErrCrashed = errors.New("the machine has no power")

// Op is one operation.
type Op struct {
	// N is the number of the operation in its FS, counted from 1.
	N int
	// Kind is "mkdir", "lock", "hold", "unlock", "open", "read", "create", "write", "sync",
	// "close", "link", "rename", "remove" or "syncdir".
	Kind string
	// Name is the file or directory. To is the second name of a link or rename.
	Name, To string
}

func (o Op) String() string {
	if o.To == "" {
		return o.Kind + " " + filepath.Base(o.Name)
	}
	return o.Kind + " " + filepath.Base(o.Name) + " " + filepath.Base(o.To)
}

// FS is a file system in memory. Use New to create one.
type FS struct {
	mu     sync.Mutex
	dirs   map[string]*directory
	locks  map[string]*lock // by directory
	ops    []Op
	inject func(Op) error
	limit  int // number of operations until the power fails; negative means never
}

type directory struct {
	now, synced map[string]*inode
	// between has the other values that a name had since the last sync. Nil means that the name did
	// not exist.
	between map[string][]*inode
}

type inode struct {
	now, synced []byte
	// lost is set after a failed sync. Later syncs report success but do nothing.
	lost bool
}

// New returns an empty file system with the root directory "/".
func New() *FS {
	return &FS{dirs: map[string]*directory{"/": newDirectory()}, locks: map[string]*lock{}, limit: -1}
}

func newDirectory() *directory {
	return &directory{now: map[string]*inode{}, synced: map[string]*inode{}, between: map[string][]*inode{}}
}

// step begins an operation. The caller must have locked mu. After an error the operation must not
// have any effect, unless its kind defines one.
func (f *FS) step(kind, name, to string) error {
	if f.limit >= 0 && len(f.ops) >= f.limit {
		return ErrCrashed
	}
	op := Op{N: len(f.ops) + 1, Kind: kind, Name: name, To: to}
	f.ops = append(f.ops, op)
	if f.inject == nil {
		return nil
	}
	return f.inject(op)
}

// wrap returns an error in the form of the errors of package os.
func wrap(kind, name string, err error) error {
	return &fs.PathError{Op: kind, Path: name, Err: err}
}

// begin locks f, calls step, and wraps its error.
func (f *FS) begin(kind, name, to string) (unlock func(), err error) {
	f.mu.Lock()
	if err := f.step(kind, name, to); err != nil {
		f.mu.Unlock()
		return nil, wrap(kind, name, err)
	}
	return f.mu.Unlock, nil
}

// entry returns the directory of a name.
func (f *FS) entry(kind, name string) (d *directory, base string, err error) {
	d = f.dirs[filepath.Dir(name)]
	if d == nil {
		return nil, "", wrap(kind, name, fs.ErrNotExist)
	}
	return d, filepath.Base(name), nil
}

// existing returns the directory and the inode of an existing name.
func (f *FS) existing(kind, name string) (d *directory, base string, ino *inode, err error) {
	d, base, err = f.entry(kind, name)
	if err != nil {
		return nil, "", nil, err
	}
	if ino = d.now[base]; ino == nil {
		return nil, "", nil, wrap(kind, name, fs.ErrNotExist)
	}
	return d, base, ino, nil
}

// set makes base refer to ino, or removes it if ino is nil.
func (d *directory) set(base string, ino *inode) {
	d.between[base] = append(d.between[base], d.now[base])
	if ino == nil {
		delete(d.now, base)
		return
	}
	d.now[base] = ino
}

// MkdirAll implements store.FS.
func (f *FS) MkdirAll(dir string) error {
	unlock, err := f.begin("mkdir", dir, "")
	if err != nil {
		return err
	}
	defer unlock()
	f.mkdirAll(dir)
	return nil
}

func (f *FS) mkdirAll(dir string) {
	for ; f.dirs[dir] == nil; dir = filepath.Dir(dir) {
		f.dirs[dir] = newDirectory()
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// Lock implements store.FS. A crash releases the lock.
func (f *FS) Lock(name string) (store.Lock, error) {
	l := &lock{f: f, name: name}
	if err := l.hold("lock"); err != nil {
		return nil, err
	}
	return l, nil
}

type lock struct {
	f      *FS
	name   string
	closed bool
}

// Hold implements store.Lock.
func (l *lock) Hold() error { return l.hold("hold") }

// hold locks the directory. The file is never replaced here, so whoever has locked the directory
// has locked the file.
func (l *lock) hold(kind string) error {
	unlock, err := l.f.begin(kind, l.name, "")
	if err != nil {
		return err
	}
	defer unlock()
	if l.closed {
		return wrap(kind, l.name, fs.ErrClosed)
	}
	d, base, err := l.f.entry(kind, l.name)
	if err != nil {
		return err
	}
	if has := l.f.locks[filepath.Dir(l.name)]; has != nil && has != l {
		return fmt.Errorf("%w by process 1", store.ErrLocked)
	}
	l.f.locks[filepath.Dir(l.name)] = l
	if d.now[base] == nil {
		d.set(base, &inode{})
	}
	return nil
}

func (l *lock) Close() error {
	unlock, err := l.f.begin("unlock", l.name, "")
	if err != nil {
		return err
	}
	defer unlock()
	l.closed = true
	if dir := filepath.Dir(l.name); l.f.locks[dir] == l {
		delete(l.f.locks, dir)
	}
	return nil
}

// Open implements store.FS. It counts as one operation, and the first Read as another.
func (f *FS) Open(name string) (io.ReadCloser, error) {
	unlock, err := f.begin("open", name, "")
	if err != nil {
		return nil, err
	}
	defer unlock()
	_, _, ino, err := f.existing("open", name)
	if err != nil {
		return nil, err
	}
	return &reader{f: f, name: name, ino: ino}, nil
}

type reader struct {
	f    *FS
	name string
	ino  *inode
	from *bytes.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if r.from == nil {
		unlock, err := r.f.begin("read", r.name, "")
		if err != nil {
			return 0, err
		}
		r.from = bytes.NewReader(bytes.Clone(r.ino.now))
		unlock()
	}
	return r.from.Read(p)
}

func (r *reader) Close() error { return nil }

// Create implements store.FS.
func (f *FS) Create(name string) (store.File, error) {
	unlock, err := f.begin("create", name, "")
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, base, err := f.entry("create", name)
	if err != nil {
		return nil, err
	}
	if d.now[base] != nil {
		return nil, wrap("create", name, fs.ErrExist)
	}
	ino := &inode{}
	d.set(base, ino)
	return &file{f, name, ino}, nil
}

type file struct {
	f    *FS
	name string
	ino  *inode
}

// Write writes half of p if a failure is injected, like a disk that becomes full.
func (w *file) Write(p []byte) (int, error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	err := w.f.step("write", w.name, "")
	if errors.Is(err, ErrCrashed) {
		return 0, wrap("write", w.name, err)
	}
	if err != nil {
		p = p[:len(p)/2]
	}
	w.ino.now = append(slices.Clip(w.ino.now), p...)
	if err != nil {
		return len(p), wrap("write", w.name, err)
	}
	return len(p), nil
}

func (w *file) Sync() error {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if err := w.f.step("sync", w.name, ""); err != nil {
		w.ino.lost = true
		return wrap("sync", w.name, err)
	}
	if !w.ino.lost {
		w.ino.synced = w.ino.now
	}
	return nil
}

func (w *file) Close() error {
	unlock, err := w.f.begin("close", w.name, "")
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// Link implements store.FS.
func (f *FS) Link(name, second string) error {
	unlock, err := f.begin("link", name, second)
	if err != nil {
		return err
	}
	defer unlock()
	_, _, ino, err := f.existing("link", name)
	if err != nil {
		return err
	}
	to, base, err := f.entry("link", second)
	if err != nil {
		return err
	}
	if to.now[base] != nil {
		return wrap("link", second, fs.ErrExist)
	}
	to.set(base, ino)
	return nil
}

// Rename implements store.FS.
func (f *FS) Rename(name, second string) error {
	unlock, err := f.begin("rename", name, second)
	if err != nil {
		return err
	}
	defer unlock()
	from, base, ino, err := f.existing("rename", name)
	if err != nil {
		return err
	}
	to, target, err := f.entry("rename", second)
	if err != nil {
		return err
	}
	if to.now[target] == ino {
		return nil // as in POSIX for two names of one file
	}
	to.set(target, ino)
	from.set(base, nil)
	return nil
}

// Remove implements store.FS.
func (f *FS) Remove(name string) error {
	unlock, err := f.begin("remove", name, "")
	if err != nil {
		return err
	}
	defer unlock()
	d, base, _, err := f.existing("remove", name)
	if err != nil {
		return err
	}
	d.set(base, nil)
	return nil
}

// SyncDir implements store.FS.
func (f *FS) SyncDir(dir string) error {
	unlock, err := f.begin("syncdir", dir, "")
	if err != nil {
		return err
	}
	defer unlock()
	d := f.dirs[dir]
	if d == nil {
		return wrap("syncdir", dir, fs.ErrNotExist)
	}
	d.synced = maps.Clone(d.now)
	clear(d.between)
	return nil
}
