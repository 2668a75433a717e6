package kernelsettings_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// TestAGroupThatARuntimeMakes checks that a group is not removed that another program made at the
// same time, if it cannot have what it must.
func TestAGroupThatARuntimeMakes(t *testing.T) {
	var removed bool
	files := kernelsettings.FS{Root: t.TempDir()}
	files.Put = func(string, string) error { return syscall.EINVAL }
	for there, want := range map[error]bool{fs.ErrExist: false, nil: true} {
		removed = false
		files.Dir = func(_ string, create bool) error {
			if !create {
				removed = true
				return nil
			}
			return there
		}
		r := files.Write(&quiet.Write{File: quiet.ClassFile("paddock-a.main"), Text: "L3:0=3"})
		if !errors.Is(r.Err, syscall.EINVAL) || removed != want {
			t.Errorf("mkdir returns %v: %v, removed: %v", there, r.Err, removed)
		}
	}
}

// TestThreads checks that all threads are read of a container with many of them in many cgroups.
func TestThreads(t *testing.T) {
	const groups, each = 4, 25_000
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), nil, 0o600))
	for g := range groups {
		var text strings.Builder
		for i := range each {
			text.WriteString(strconv.Itoa(1+g*each+i) + "\n")
		}
		dir := filepath.Join(root, "a.scope", strconv.Itoa(g))
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "cgroup.threads"), []byte(text.String()), 0o600))
	}
	ids, err := kernelsettings.FS{Root: root, Mount: root}.Threads("/a.scope")
	if err != nil || len(ids) != groups*each {
		t.Errorf("%d threads, want %d: %v", len(ids), groups*each, err)
	}
}
