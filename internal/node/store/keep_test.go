package store_test

import (
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// TestKeep checks that copies get names of their own, survive a crash, and are never read.
func TestKeep(t *testing.T) {
	fsys := crashfs.New()
	s, _, err := store.Open(fsys, "/state/state.json", limit, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/state/state.json.kept-1", "/state/state.json.kept-2"} {
		name, err := s.Keep([]byte("as it was"))
		if err != nil || name != want {
			t.Fatalf("kept as %q, %v; want %s", name, err, want)
		}
		after := fsys.Left(1)
		if data, err := after.Peek(name); err != nil || string(data) != "as it was" {
			t.Errorf("after a crash %s holds %q, %v", name, data, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keep(nil); err == nil {
		t.Error("a closed store keeps a copy")
	}
	s, loaded, err := store.Open(fsys, "/state/state.json", limit, func([]byte) error { return errors.New("read") })
	if err != nil || loaded.Source != store.Nothing {
		t.Fatalf("%v, %v: a copy was taken for the state", loaded, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
