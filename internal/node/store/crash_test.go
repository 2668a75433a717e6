package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// node simulates the life of an agent with a store. It knows what the next start may read. Its
// methods return an error if the store breaks its promise.
type node struct {
	disk  *crashfs.FS
	skip  func(store.FS) store.FS // nil, or a wrapper that breaks the file system
	store *store.Store            // nil when no agent runs
	n     int                     // the last generation that a Write tried
	// acked is the last content that was acknowledged, by a Write or by an Open that returned it.
	// Nil means none.
	acked []byte
	// maybe contains the writes since acked that were cut off or are uncertain.
	maybe [][]byte
	// previous is the content of PATH.previous, guaranteed until the next Write begins. Nil means
	// that it is not known.
	previous []byte
	// rotten contains the damaged contents that must not be lost.
	rotten [][]byte
}

func newNode() *node { return &node{disk: crashfs.New()} }

func (n *node) fsys() store.FS {
	if n.skip != nil {
		return n.skip(n.disk)
	}
	return n.disk
}

// start opens the store and checks what it finds. It returns false if the store could not be
// opened, which is correct only if the file system failed.
func (n *node) start() (bool, error) {
	s, loaded, err := store.Open(n.fsys(), path, limit, whole)
	if err != nil {
		n.disk.Kill() // the agent gives up
		if told := (*store.Error)(nil); !errors.As(err, &told) || errors.Is(err, store.ErrDamaged) {
			return false, fmt.Errorf("open: %w", err)
		}
		return false, nil
	}
	n.store = s
	for _, data := range append(n.maybe, n.acked) {
		if bytes.Equal(loaded.Data, data) && (data == nil) == (loaded.Source == store.Nothing) {
			n.acked, n.maybe = loaded.Data, nil
			return true, n.checkRotten()
		}
	}
	return false, fmt.Errorf("found %v with %q, want %q or one of %q", loaded, loaded.Data, n.acked, n.maybe)
}

func (n *node) write(size int) error {
	n.n++
	data := seal(n.n, size)
	err := n.store.Write(data)
	switch {
	case err == nil:
		n.previous, n.acked, n.maybe = n.acked, data, nil
		if got, _ := n.disk.Peek(path + ".previous"); !bytes.Equal(got, n.previous) && n.previous != nil {
			return fmt.Errorf("previous is %q, want %q", got, n.previous)
		}
		if got, _ := n.disk.Peek(path); !bytes.Equal(got, data) {
			return fmt.Errorf("acknowledged %q, but the file is %q", data, got)
		}
	case errors.Is(err, store.ErrUncertain), errors.Is(err, crashfs.ErrCrashed):
		n.maybe = append(n.maybe, data)
		fallthrough
	default:
		n.previous = nil
	}
	return n.checkRotten()
}

func (n *node) crash(seed uint64) {
	n.disk, n.store = n.disk.Crash(seed), nil
}

func (n *node) stop(kill bool) {
	if !kill {
		_ = n.store.Close() // an injected error is not a fault of the store
	}
	n.disk.Kill()
	n.store = nil
}

// checkRotten looks for the damaged contents in all files.
func (n *node) checkRotten() error {
	names, err := n.disk.Names(dir)
	if err != nil && len(n.rotten) > 0 {
		return err
	}
	for _, want := range n.rotten {
		found := false
		for _, name := range names {
			got, err := n.disk.Peek(dir + "/" + name)
			found = found || err == nil && bytes.Equal(got, want)
		}
		if !found {
			return fmt.Errorf("the damaged file %q is lost; there are %q", want, names)
		}
	}
	return nil
}

// rot damages the file of a stopped agent and checks what the next start finds.
func (n *node) rot(bit int) error {
	data, err := n.disk.Peek(path)
	if err != nil {
		return err
	}
	previous, _ := n.disk.Peek(path + ".previous")
	if n.previous != nil && !bytes.Equal(previous, n.previous) {
		return fmt.Errorf("previous is %q, want %q", previous, n.previous)
	}
	damaged := flip(data, bit%(8*len(data)))
	n.disk.Put(path, damaged)
	s, loaded, err := store.Open(n.fsys(), path, limit, whole)
	if previous == nil {
		if !errors.Is(err, store.ErrDamaged) {
			return fmt.Errorf("opened with %q damaged and nothing before: %v, %w", data, loaded, err)
		}
		n.disk.Put(path, data) // as if an operator restored a copy
		return nil
	}
	if err != nil || loaded.Source != store.Previous || !bytes.Equal(loaded.Data, previous) {
		return fmt.Errorf("found %v with %q, want the previous %q: %w", loaded, loaded.Data, previous, err)
	}
	n.rotten = append(n.rotten, damaged)
	n.store, n.acked, n.maybe, n.previous = s, previous, nil, nil
	return nil
}

// life runs a fixed history with a restart in the middle. The power fails after crashAfter
// operations.
func (n *node) life(crashAfter int, seed uint64) error {
	n.disk.CrashAfter(crashAfter)
	for run := range 2 {
		if running, err := n.start(); !running {
			if err != nil {
				return err
			}
			break
		}
		for i := range 3 {
			if err := n.write(5 * (i + run)); err != nil {
				return err
			}
		}
		_ = n.store.Close() // it fails after a crash
	}
	n.crash(seed)
	if running, err := n.start(); !running || err != nil {
		return fmt.Errorf("after the crash: %v, %w", running, err)
	}
	// What was found is also durable, and further writes can follow.
	n.crash(seed)
	if running, err := n.start(); !running || err != nil {
		return fmt.Errorf("after another crash: %v, %w", running, err)
	}
	return n.write(7)
}

// lives runs life with a crash after every operation and with many outcomes. It returns the first
// broken promise.
func lives(seeds uint64, skip func(store.FS) store.FS) error {
	all := newNode()
	if err := all.life(1_000_000, crashfs.KeepAll); err != nil {
		return fmt.Errorf("without a crash: %w", err)
	}
	const operations = 70 // more than life has
	for k := range operations {
		for seed := range seeds {
			n := newNode()
			n.skip = skip
			if err := n.life(k, seed); err != nil {
				return fmt.Errorf("crash after operation %d, seed %d: %w", k, seed, err)
			}
		}
	}
	return nil
}

func TestCrashAfterEveryOperation(t *testing.T) {
	if err := lives(60, nil); err != nil {
		t.Error(err)
	}
}

// careless omits a step that the store relies on.
type careless struct {
	store.FS
	file, directory, link bool
}

func (c careless) SyncDir(dir string) error {
	if c.directory {
		return nil
	}
	return c.FS.SyncDir(dir)
}

func (c careless) Create(name string) (store.File, error) {
	f, err := c.FS.Create(name)
	if err != nil || !c.file {
		return f, err
	}
	return carelessFile{f}, nil
}

func (c careless) Link(name, second string) error {
	if c.link {
		return c.Rename(name, second)
	}
	return c.FS.Link(name, second)
}

type carelessFile struct{ store.File }

func (carelessFile) Sync() error { return nil }

// The crash test must be able to fail: it finds each step that is left out.
func TestCrashTestBites(t *testing.T) {
	for _, c := range []careless{{file: true}, {directory: true}, {link: true}} {
		err := lives(60, func(f store.FS) store.FS { c.FS = f; return c })
		if err == nil {
			t.Errorf("nothing found with %+v", c)
		}
		t.Log(err)
	}
}

// TestHistories runs random histories of writes, starts, disk failures, power failures at any
// operation, and damage.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		start := func(t *rapid.T) {
			running, err := n.start()
			must(err)
			if !running {
				t.Skip("the disk fails")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				if n.store == nil {
					start(t)
				}
				must(n.write(rapid.IntRange(0, 20).Draw(t, "size")))
			},
			"restart": func(t *rapid.T) {
				if n.store != nil {
					n.stop(rapid.Bool().Draw(t, "kill"))
				}
				start(t)
			},
			"power": func(t *rapid.T) {
				n.disk.CrashAfter(rapid.IntRange(0, 12).Draw(t, "operations before"))
				for i := 0; n.store != nil && i < 3; i++ {
					must(n.write(i))
				}
				n.crash(rapid.Uint64Range(0, 1000).Draw(t, "seed"))
				start(t)
			},
			"fail": func(t *rapid.T) {
				at := len(n.disk.Ops()) + rapid.IntRange(1, 12).Draw(t, "operations before")
				cause := rapid.SampledFrom(diskErrors).Draw(t, "error")
				if rapid.Bool().Draw(t, "once") {
					n.disk.Inject(crashfs.At(at, cause))
				} else {
					n.disk.Inject(crashfs.From(at, cause))
				}
			},
			"mend": func(*rapid.T) { n.disk.Inject(nil) },
			"rot": func(t *rapid.T) {
				if n.store != nil {
					n.stop(true)
				}
				n.disk.Inject(nil)
				// A file that is already damaged is evidence and must not be touched.
				if data, _ := n.disk.Peek(path); whole(data) == nil && len(n.maybe) == 0 && len(n.rotten) < 50 {
					must(n.rot(rapid.IntRange(0, 10_000).Draw(t, "bit")))
				}
			},
		})
	})
}

// At the end of each history, the power fails with every possible outcome.
func TestHistoriesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		if _, err := n.start(); err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "writes") {
			if rapid.IntRange(0, 3).Draw(t, "fails "+strconv.Itoa(i)) == 0 {
				at := len(n.disk.Ops()) + rapid.IntRange(1, 8).Draw(t, "operation")
				n.disk.Inject(crashfs.At(at, syscall.EIO))
			}
			if err := n.write(i); err != nil {
				t.Fatal(err)
			}
			n.disk.Inject(nil)
		}
		for seed := range uint64(30) {
			after := node{disk: n.disk.Left(seed), acked: n.acked, maybe: n.maybe}
			if running, err := after.start(); !running || err != nil {
				t.Fatalf("seed %d: %v, %v", seed, running, err)
			}
		}
	})
}
