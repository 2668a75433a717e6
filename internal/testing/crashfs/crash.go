package crashfs

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Two seeds of Crash and Left have a meaning of their own.
const (
	// KeepNothing leaves what was synced and nothing else.
	KeepNothing uint64 = 0
	// KeepAll leaves all that was written.
	KeepAll uint64 = 1
)

// Crash takes the power away and returns what is on the disk, with the power back: unlocked,
// no operation counted, nothing injected. The same seed gives the same outcome. f and its
// files return ErrCrashed from now on, but it can crash again, with another seed.
func (f *FS) Crash(seed uint64) *FS {
	f.CrashAfter(0)
	return f.Left(seed)
}

// Left returns what Crash would return, and f runs on.
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

// Kill ends the agent, and the machine runs on: its locks are gone, and what it has not synced
// is as it was.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.locks)
}

// chance decides what is left.
type chance struct {
	seed  uint64
	rand  *rand.Rand
	after map[*inode]*inode // so that two names of a file stay two names of one file
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
	// The first value between is the synced one.
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

// CrashAfter lets n more operations happen; the ones after them return ErrCrashed and do
// nothing. Crash then describes what is left.
func (f *FS) CrashAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = len(f.ops) + n
}

// Inject lets every operation ask fail first; an error that it returns is what the operation
// returns, wrapped. It then has had no effect, but that a write wrote half and that a failed
// sync loses the content. nil ends it. fail is called with the file system locked: it must
// not use it.
func (f *FS) Inject(fail func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = fail
}

// At is for Inject: the operation with that number fails.
func At(n int, err error) func(Op) error {
	return func(op Op) error {
		if op.N == n {
			return err
		}
		return nil
	}
}

// From is for Inject: the operation with that number and all later ones fail, if they are of
// one of the kinds, or of any kind if there are none.
func From(n int, err error, kinds ...string) func(Op) error {
	return func(op Op) error {
		if op.N >= n && (len(kinds) == 0 || slices.Contains(kinds, op.Kind)) {
			return err
		}
		return nil
	}
}

// Full are the kinds that need space, for From with ENOSPC.
var Full = []string{"mkdir", "create", "write", "link", "rename"}

// Changing are the kinds that change something, for From with EROFS.
var Changing = []string{"mkdir", "lock", "create", "write", "link", "rename", "remove"}

// Ops returns the operations so far, also those that failed, but not those that came after the
// power was gone.
func (f *FS) Ops() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// Peek returns the content of a file, as a reader would see it now.
func (f *FS) Peek(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, ino, err := f.existing("peek", name)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(ino.now), nil
}

// Put makes a file with that content, or gives that content to the name alone if the file is
// there. The directory is made. All is durable.
func (f *FS) Put(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mkdirAll(filepath.Dir(name))
	f.durably(name, &inode{now: bytes.Clone(data), synced: bytes.Clone(data)})
}

// Delete takes the name away, durably, if it is there.
func (f *FS) Delete(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durably(name, nil)
}

// durably makes a name lead to ino, or to nothing.
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
