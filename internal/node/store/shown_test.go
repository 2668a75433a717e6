package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-project/paddock/internal/node/store"
)

func shown(t *testing.T) (*store.Shown, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run", "notices")
	return store.NewShown(dir, "file", 16), dir
}

func TestShown(t *testing.T) {
	old := syscall.Umask(0o077) // Readers are not the owner.
	defer syscall.Umask(old)
	s, dir := shown(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("without a directory: %v, %v", all, err)
	}
	if _, err := s.Read("g", "n"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read before it is written: %v", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := s.Write("g", "n", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, err := s.Read("g", "n"); err != nil || string(data) != text {
			t.Errorf("%q, %v; want %q", data, err, text)
		}
	}
	for name, want := range map[string]fs.FileMode{"g": 0o755 | fs.ModeDir, "g/n": 0o755 | fs.ModeDir, "g/n/file": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if err := s.Write("g", "n", make([]byte, 17)); err == nil || !strings.Contains(err.Error(), "expected at most 16 bytes") {
		t.Errorf("too large: %v", err)
	}
	if err := s.Write("h", "m", nil); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if diff := cmp.Diff(map[string][]string{"g": {"n"}, "h": {"m"}}, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for range 2 {
		if err := s.Remove("g"); err != nil {
			t.Error(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A process that ends between two steps of a write leaves files that do not get in the way. The
// same applies to a write that never began.
func TestShownLeftovers(t *testing.T) {
	steps := []func(dir string) error{
		func(dir string) error { return os.MkdirAll(dir, 0o700) },
		func(dir string) error { return os.Mkdir(dir+"/g", 0o700) },
		func(dir string) error { return os.Mkdir(dir+"/g/n", 0o700) },
		func(dir string) error { return os.WriteFile(dir+"/g/n.new", nil, 0o600) },
		func(dir string) error { return os.WriteFile(dir+"/g/n.new", []byte("ha"), 0o600) },
		func(dir string) error { return os.Rename(dir+"/g/n.new", dir+"/g/n/file") },
	}
	for n := range len(steps) + 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s, dir := shown(t)
			for _, step := range steps[:n] {
				if err := step(dir); err != nil {
					t.Fatal(err)
				}
			}
			if all, err := s.List(); err != nil || n >= 4 && len(all["g"]) != 1 {
				t.Errorf("%v, %v", all, err)
			}
			if err := s.Write("g", "n", []byte("whole")); err != nil {
				t.Fatal(err)
			}
			if data, err := s.Read("g", "n"); err != nil || string(data) != "whole" {
				t.Errorf("%q, %v", data, err)
			}
			if _, err := os.Lstat(dir + "/g/n.new"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the new file is still there: %v", err)
			}
		})
	}
}

// A reader that can write to its directory puts arbitrary things there. Nothing outside changes,
// and nothing outside is read.
func TestShownPlanted(t *testing.T) {
	for name, plant := range map[string]func(at, outside string) error{
		"a link to a file":      func(at, outside string) error { return os.Symlink(outside, at) },
		"a link to a neighbour": func(at, _ string) error { return os.Symlink("../../other/n/file", at) },
		"a named pipe":          func(at, _ string) error { return syscall.Mkfifo(at, 0o644) },
		"a directory":           func(at, _ string) error { return os.Mkdir(at, 0o755) },
		"a large file":          func(at, _ string) error { return os.WriteFile(at, make([]byte, 17), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := shown(t)
			outside := filepath.Join(t.TempDir(), "secret")
			for _, err := range []error{os.WriteFile(outside, []byte("secret"), 0o600), os.MkdirAll(dir+"/g/n", 0o755), s.Write("other", "n", []byte("other")), plant(dir+"/g/n/file", outside)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if data, err := s.Read("g", "n"); err == nil {
				t.Errorf("it is read: %q", data)
			}
			err := s.Write("g", "n", []byte("whole"))
			if data, again := s.Read("g", "n"); name != "a directory" && (err != nil || again != nil || string(data) != "whole") {
				t.Errorf("it is not replaced: %v, %v", err, again)
			}
			if data, err := s.Read("other", "n"); err != nil || string(data) != "other" {
				t.Errorf("the neighbour has %q, %v", data, err)
			}
			if err := s.Remove("g"); err != nil {
				t.Error(err)
			}
			if data, err := os.ReadFile(outside); err != nil || string(data) != "secret" {
				t.Errorf("the file outside has %q, %v", data, err)
			}
		})
	}
}

// By mistake, others use the directory as well. Their files are not listed, so they are not
// removed.
func TestShownAmongOthers(t *testing.T) {
	s, dir := shown(t)
	for _, name := range []string{"data/db/table", "data/lock", "empty/too", "stray"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write("g", "n", nil); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if diff := cmp.Diff(map[string][]string{"g": {"n"}}, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// If Shown cannot write because a regular file has the name of DIR, the error names DIR.
func TestShownCannotBeWritten(t *testing.T) {
	s, dir := shown(t)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Write("g", "n", nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not name the directory: %v", err)
	}
	if _, err := s.List(); err == nil {
		t.Error("a file is listed as a directory")
	}
}
