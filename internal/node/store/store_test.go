package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

const (
	dir  = "/var/lib/paddock"
	path = dir + "/state"
	// limit is the maximum size in bytes of a file in these tests.
	limit = 1 << 20
)

// seal returns generation n with size bytes of content.
func seal(n, size int) []byte {
	data := binary.BigEndian.AppendUint32(nil, uint32(n))
	data = append(data, bytes.Repeat([]byte{byte(n)}, size)...)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// whole is the validate function of these tests.
func whole(data []byte) error {
	if len(data) < sha256.Size {
		return fmt.Errorf("%d bytes are too few", len(data))
	}
	content, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(content); !bytes.Equal(got[:], sum) {
		return errors.New("checksum does not match")
	}
	return nil
}

func mustOpen(t testing.TB, fsys store.FS, path string) (*store.Store, store.Loaded) {
	t.Helper()
	s, loaded, err := store.Open(fsys, path, limit, whole)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, loaded
}

func mustWrite(t testing.TB, s *store.Store, data []byte) {
	t.Helper()
	if err := s.Write(data); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// kept returns a file system with generations 1 and 2. The store is closed.
func kept(t testing.TB) *crashfs.FS {
	t.Helper()
	f := crashfs.New()
	s, _ := mustOpen(t, f, path)
	mustWrite(t, s, seal(1, 20))
	mustWrite(t, s, seal(2, 20))
	mustClose(t, s)
	return f
}

func wantFile(t testing.TB, f *crashfs.FS, name string, want []byte) {
	t.Helper()
	if got, err := f.Peek(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

func wantNames(t testing.TB, f *crashfs.FS, want ...string) {
	t.Helper()
	if got, err := f.Names(dir); err != nil || !slices.Equal(got, want) {
		t.Errorf("the directory has %q (%v), want %q", got, err, want)
	}
}

func TestFirstStart(t *testing.T) {
	f := crashfs.New()
	s, loaded := mustOpen(t, f, path)
	if loaded.Source != store.Nothing || loaded.Data != nil || loaded.Reason != nil {
		t.Errorf("found %v", loaded)
	}
	wantNames(t, f, "state.lock")
	mustWrite(t, s, seal(1, 3))
	wantFile(t, f, path, seal(1, 3))
	wantNames(t, f, "state", "state.lock")
}

func TestWriteKeepsThePreviousGeneration(t *testing.T) {
	f := kept(t)
	s, loaded := mustOpen(t, f, path)
	if loaded.Source != store.Current || !bytes.Equal(loaded.Data, seal(2, 20)) || loaded.Path != path {
		t.Errorf("found %v", loaded)
	}
	mustWrite(t, s, seal(3, 9))
	wantFile(t, f, path, seal(3, 9))
	wantFile(t, f, path+".previous", seal(2, 20))
	wantNames(t, f, "state", "state.lock", "state.previous")
}

// One Write runs each step once, and syncs or writes nothing twice.
func TestStepsOfWrite(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	before := len(f.Ops())
	mustWrite(t, s, seal(3, 9))
	var got []string
	for _, op := range f.Ops()[before:] {
		got = append(got, op.String())
	}
	want := []string{
		"hold state.lock", "create state.new", "write state.new", "sync state.new", "close state.new",
		"link state state.old", "rename state.old state.previous", "rename state.new state",
		"syncdir paddock",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

func TestLeftoversAreInNobodysWay(t *testing.T) {
	f := kept(t)
	f.Put(path+".new", []byte("half of a"))
	f.Put(path+".old", seal(1, 20))
	s, loaded := mustOpen(t, f, path)
	if !bytes.Equal(loaded.Data, seal(2, 20)) {
		t.Errorf("found %v", loaded)
	}
	mustWrite(t, s, seal(3, 9))
	wantFile(t, f, path, seal(3, 9))
	wantFile(t, f, path+".previous", seal(2, 20))
	wantNames(t, f, "state", "state.lock", "state.previous")
}

func TestSecondAgentIsRejected(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	_, _, err := store.Open(f, path, limit, whole)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "locked by process 1; only one agent") {
		t.Errorf("the second one: %v", err)
	}
	mustClose(t, s)
	mustOpen(t, f, path)
}

func TestClosedStoreDoesNotWrite(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	mustClose(t, s)
	mustClose(t, s)
	if err := s.Write(seal(3, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	wantFile(t, f, path, seal(2, 20))
}

func TestTooLargeIsNotWritten(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	if err := s.Write(make([]byte, limit+1)); err == nil || !strings.Contains(err.Error(), "1048577 bytes are too large: expected at most 1048576 bytes") {
		t.Errorf("Write of too much: %v", err)
	}
	wantFile(t, f, path, seal(2, 20))
}

// The file is removed while an agent that knows its content runs.
func TestRemovedFileComesBack(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	f.Delete(path)
	mustWrite(t, s, seal(3, 9))
	wantFile(t, f, path, seal(3, 9))
	wantFile(t, f, path+".previous", seal(1, 20))
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	s, _ := mustOpen(t, store.OS(), "./sub/../state")
	mustWrite(t, s, seal(1, 1))
	mustClose(t, s)
	if _, loaded := mustOpen(t, store.OS(), "state"); loaded.Source != store.Current {
		t.Errorf("found %v", loaded)
	}
}
