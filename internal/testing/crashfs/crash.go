package crashfs

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Two seeds of Crash and Left have a special meaning.
const (
	// KeepNothing keeps only what was synced.
	KeepNothing uint64 = 0
	// KeepAll keeps everything that was written.
	KeepAll uint64 = 1
)

// Crash cuts the power and returns the file system after the power is back. It has what is left on
// the disk. It has no locks, no counted operations, and no injected failures. The same seed gives
// the same result. From now on f and its files return ErrCrashed, but f can crash again with
// another seed.
func (f *FS) Crash(seed uint64) *FS {
	f.CrashAfter(0)
	return f.Left(seed)
}

// Left returns what Crash would return, but f continues to work.
func (f *FS) Left(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := chance{seed, rand.New(rand.NewPCG(seed, seed)), map[*inode]*inode{}}
	after := New()
	for _, name := range slices.Sorted(maps.Keys(f.dirs)) {
		after.dirs[name] = c.directory(f.dirs[name])
	}
	return after
}

// Kill ends the agent while the machine continues to run. The agent's locks are released, and
// unsynced data stays as it is.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.locks)
}

// chance decides what is left after a crash.
type chance struct {
	seed  uint64
	rand  *rand.Rand
	after map[*inode]*inode // ensures that two names of one file stay two names of one file
}

func (c *chance) directory(d *directory) *directory {
	after := newDirectory()
	names := maps.Clone(d.synced)
	maps.Copy(names, d.now)
	for base := range d.between {
		names[base] = nil
	}
	for _, base := range slices.Sorted(maps.Keys(names)) {
		if ino := c.name(d, base); ino != nil {
			after.now[base], after.synced[base] = c.inode(ino), c.inode(ino)
		}
	}
	return after
}

func (c *chance) name(d *directory, base string) *inode {
	switch c.seed {
	case KeepNothing:
		return d.synced[base]
	case KeepAll:
		return d.now[base]
	}
	// The first value in between is the synced one.
	could := append(slices.Clip(d.between[base]), d.now[base])
	return could[c.rand.IntN(len(could))]
}

func (c *chance) inode(ino *inode) *inode {
	if after := c.after[ino]; after != nil {
		return after
	}
	data := c.content(ino)
	c.after[ino] = &inode{now: data, synced: data}
	return c.after[ino]
}

func (c *chance) content(ino *inode) []byte {
	switch {
	case c.seed == KeepAll:
		return bytes.Clone(ino.now)
	case bytes.Equal(ino.now, ino.synced), c.seed == KeepNothing, ino.lost:
		return bytes.Clone(ino.synced)
	}
	part := c.rand.IntN(len(ino.now) + 1)
	switch c.rand.IntN(4) {
	case 0:
		return bytes.Clone(ino.synced)
	case 1:
		return bytes.Clone(ino.now)
	case 2:
		return bytes.Clone(ino.now[:part])
	default:
		zeros := make([]byte, len(ino.now))
		copy(zeros, ino.now[:part])
		return zeros
	}
}

// CrashAfter allows n more operations. Later operations return ErrCrashed and do nothing. Use Crash
// to get what is left.
func (f *FS) CrashAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = len(f.ops) + n
}

// Inject calls fail before every operation. If fail returns an error, the operation returns that
// error, wrapped, and has no effect, except that a write writes half of its data, and that a failed
// sync loses the content. A nil fail ends the injection. fail is called with the file system
// locked, so it must not use it.
func (f *FS) Inject(fail func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = fail
}

// At returns a function for Inject that fails the operation with number n.
func At(n int, err error) func(Op) error {
	return func(op Op) error {
		if op.N == n {
			return err
		}
		return nil
	}
}

// From returns a function for Inject that fails operation n and all later ones if they are of one
// of the kinds. Without kinds, all operations fail.
func From(n int, err error, kinds ...string) func(Op) error {
	return func(op Op) error {
		if op.N >= n && (len(kinds) == 0 || slices.Contains(kinds, op.Kind)) {
			return err
		}
		return nil
	}
}

// Full lists the kinds of operations that need space, for From with ENOSPC.
var Full = []string{"mkdir", "create", "write", "link", "rename"}

// Changing lists the kinds of operations that change something, for From with EROFS.
var Changing = []string{"mkdir", "lock", "create", "write", "link", "rename", "remove"}

// Ops returns the operations so far. It includes operations that failed, but not those after the
// power was cut.
func (f *FS) Ops() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// Peek returns the content of a file as a reader would see it now.
func (f *FS) Peek(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, ino, err := f.existing("peek", name)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(ino.now), nil
}

// Put durably creates a file with the given content and its directory. If the name exists, Put
// replaces the content of that name only, not that of other names of the same file.
func (f *FS) Put(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mkdirAll(filepath.Dir(name))
	f.durably(name, &inode{now: bytes.Clone(data), synced: bytes.Clone(data)})
}

// Delete durably removes the name, if it exists.
func (f *FS) Delete(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durably(name, nil)
}

// durably makes a name refer to ino, or removes it if ino is nil.
func (f *FS) durably(name string, ino *inode) {
	d, base := f.dirs[filepath.Dir(name)], filepath.Base(name)
	if d == nil {
		return
	}
	delete(d.between, base)
	if ino == nil {
		delete(d.now, base)
		delete(d.synced, base)
		return
	}
	d.now[base], d.synced[base] = ino, ino
}

// Names returns the names of the files in a directory, sorted.
func (f *FS) Names(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.dirs[dir]
	if d == nil {
		return nil, wrap("names", dir, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(d.now)), nil
}
