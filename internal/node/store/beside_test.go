package store_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

func besideOf(t *testing.T, f *crashfs.FS) (*store.Store, *store.Beside) {
	t.Helper()
	s, _ := mustOpen(t, f, path)
	return s, s.Beside("history", 20)
}

// TestBeside checks that Read returns the last content written, that each Write replaces the
// previous content, and that leftover files and files that are too large do not get in the way.
func TestBeside(t *testing.T) {
	f := kept(t)
	s, b := besideOf(t, f)
	if _, err := b.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	f.Put(path+".history.new", []byte("left over"))
	for _, text := range []string{"one", "two"} {
		if err := b.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, err := b.Read(); err != nil || string(data) != text {
			t.Errorf("read %q, %v, want %q", data, err, text)
		}
	}
	if err := b.Write([]byte(strings.Repeat("x", 21))); err == nil {
		t.Error("21 bytes were written where the most is 20")
	}
	wantNames(t, f, "state", "state.history", "state.lock", "state.previous")
	f.Put(path+".history", []byte(strings.Repeat("x", 21)))
	if _, err := b.Read(); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("of 21 bytes: %v", err)
	}
	mustClose(t, s)
	if err := b.Write(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after the store is closed: %v", err)
	}
}

// TestBesideFails checks that the file is whole, with its old or its new content, whichever
// operation fails and whenever the power fails. The state is untouched, and the next write
// succeeds.
func TestBesideFails(t *testing.T) {
	const steps = 7 // hold, create, write, sync, close, hold, rename
	for k := 1; k <= steps+1; k++ {
		f := kept(t)
		s, b := besideOf(t, f)
		if err := b.Write([]byte("old")); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, s, seal(3, 9)) // It syncs the directory.
		cause := errors.New("injected")
		f.Inject(crashfs.At(len(f.Ops())+k, cause))
		if err := b.Write([]byte("new")); errors.Is(err, cause) != (k <= steps) {
			t.Fatalf("operation %d: %v", k, err)
		}
		f.Inject(nil)
		for seed := range uint64(20) {
			after := f.Left(seed)
			data, err := after.Peek(path + ".history")
			if text := string(data); err != nil || text != "old" && (text != "new" || k <= steps) {
				t.Errorf("operation %d, seed %d: %q, %v", k, seed, data, err)
			}
			wantFile(t, after, path, seal(3, 9))
		}
		if err := b.Write([]byte("next")); err != nil {
			t.Errorf("after operation %d failed: %v", k, err)
		}
		wantFile(t, f, path+".history", []byte("next"))
	}
}

// late runs during while a file beside the state is synced.
type late struct {
	store.FS
	during func()
}

type lateFile struct {
	store.File
	during func()
}

func (l *late) Create(name string) (store.File, error) {
	f, err := l.FS.Create(name)
	if err == nil && strings.HasSuffix(name, ".history.new") {
		f = lateFile{f, l.during}
	}
	return f, err
}

func (f lateFile) Sync() error {
	f.during()
	return f.File.Sync()
}

// TestBesideNeedsTheLock checks that a write that stalls until the store is closed and another
// process has opened it does not replace the file of the other process.
func TestBesideNeedsTheLock(t *testing.T) {
	f := kept(t)
	fsys := &late{FS: f}
	s, err := open(t, fsys)
	if err != nil {
		t.Fatal(err)
	}
	fsys.during = func() {
		mustClose(t, s)
		other, b := besideOf(t, f)
		t.Cleanup(func() { mustClose(t, other) })
		if err := b.Write([]byte("other")); err != nil {
			t.Error(err)
		}
	}
	if err := s.Beside("history", 20).Write([]byte("late")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("written after the store was closed: %v", err)
	}
	wantFile(t, f, path+".history", []byte("other"))
}

// open opens a store on a file system that need not be a crashfs.FS.
func open(t *testing.T, fsys store.FS) (*store.Store, error) {
	t.Helper()
	s, _, err := store.Open(fsys, path, limit, whole)
	return s, err
}
