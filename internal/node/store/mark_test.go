package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/store"
)

// TestMark checks that Marked returns the time stored last, and the zero time before the first Mark
// and for anything but a regular file.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state.json.alive")
	if at := store.Marked(name); !at.IsZero() {
		t.Errorf("before it was noted: %v", at)
	}
	for _, at := range []time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_800_000_000, 0)} {
		if err := store.Mark(name, at); err != nil {
			t.Fatal(err)
		}
		if got := store.Marked(name); !got.Equal(at) {
			t.Errorf("noted %v, read %v", at, got)
		}
	}
	if at := store.Marked(dir); !at.IsZero() {
		t.Errorf("a directory: %v", at)
	}
	if err := store.Mark(filepath.Join(dir, "none", "x"), time.Now()); err == nil {
		t.Error("noted in a directory that is not there")
	}
}
