package podres

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// entries returns the names in a directory. Tests use it to check that no temporary file is left.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestListenModes checks that the modes do not depend on the umask.
func TestListenModes(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	path := filepath.Join(dir, "s")
	l := listen(t, path)
	if got, want := modeOf(t, path), fs.ModeSocket|0o660; got != want {
		t.Errorf("socket: %v, want %v", got, want)
	}
	if got, want := modeOf(t, dir), fs.ModeDir|0o750; got != want {
		t.Errorf("directory: %v, want %v", got, want)
	}
	if l.Addr().String() != path {
		t.Errorf("address %s, want %s", l.Addr(), path)
	}
	if got := entries(t, dir); len(got) != 1 {
		t.Errorf("in the directory are %q", got)
	}
	if err := l.Close(); err != nil || len(entries(t, dir)) != 0 {
		t.Errorf("after Close (%v) in the directory are %q", err, entries(t, dir))
	}
}

// TestListenKeepsDirectory checks that an existing directory is not changed. It belongs to others,
// e.g. to systemd (RuntimeDirectory) or it is /run.
func TestListenKeepsDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	listen(t, filepath.Join(dir, "s"))
	if got, want := modeOf(t, dir), fs.ModeDir|0o711; got != want {
		t.Errorf("directory: %v, want %v", got, want)
	}
}

// TestPrepare checks that no client finds a socket that is prepared, that its name is checked
// again, and that nothing is left of one that is closed.
func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	prepare := func() *Prepared {
		t.Helper()
		p, err := Prepare(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := prepare(), prepare()
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("a client finds a socket that is only prepared")
	}
	l, err := first.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := modeOf(t, path), fs.ModeSocket|0o600; got != want {
		t.Errorf("socket: %v, want %v", got, want)
	}
	if _, err := second.Listen(); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process listens: %v", err)
	}
	if got := entries(t, dir); len(got) != 1 {
		t.Errorf("in the directory are %q", got)
	}
	if err := errors.Join(first.Close(), second.Close(), l.Close(), prepare().Close()); err != nil {
		t.Error(err) // The third one is prepared on a path that is free again.
	}
	if got := entries(t, dir); len(got) != 0 {
		t.Errorf("in the directory are %q", got)
	}
}

func TestListenReplacesStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoListener) || !strings.Contains(err.Error(), path) {
		t.Errorf("Dial of a stale socket: %v", err)
	}
	l := listen(t, path)
	if err := accepts(l, path); err != nil {
		t.Error(err)
	}
}

// accepts returns an error unless a connection to path reaches l.
func accepts(l net.Listener, path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		return err
	}
	return accepted.Close()
}

func TestListenKeepsLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	live := listen(t, path)
	if _, err := Listen(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if accepted, err := live.Accept(); err != nil { // The probe.
		t.Error(err)
	} else {
		accepted.Close()
	}
	if err := accepts(live, path); err != nil {
		t.Error(err)
	}
}

// TestCloseKeepsOther checks that Close does not remove a socket that replaced its own.
func TestCloseKeepsOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := listen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := accepts(second, path); err != nil {
		t.Error(err)
	}
}

func TestListenRejects(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 110-len(dir)))
	for _, c := range []struct{ path, want string }{
		{"", "empty"},
		{"@abstract", "expected the path of a file"},
		{long, "the path has 111 bytes, at most 102 are possible: choose a shorter one"},
		{file, "the path has a file that is not a socket (-rw-------)"},
		{link, "the path has a file that is not a socket"},
		{dir, "the path has a file that is not a socket"},
		{filepath.Join(file, "s"), "not a directory"},
		{filepath.Join(file, "d", "s"), "not a directory"},
	} {
		_, err := Listen(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%q: %v, want %q", c.path, err, c.want)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file now holds %q, %v", data, err)
	}
	if got := entries(t, dir); len(got) != 2 {
		t.Errorf("in the directory are %q", got)
	}
	if _, err := Dial(t.Context(), long); err == nil || !strings.Contains(err.Error(), "at most 107 are possible") {
		t.Errorf("Dial: %v", err)
	}
	if _, err := Dial(t.Context(), filepath.Join(dir, "nothing")); !errors.Is(err, ErrNoListener) {
		t.Errorf("Dial: %v", err)
	}
}

// TestListenLongest checks that Listen works with the longest path that it accepts.
func TestListenLongest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("x", maxPath-suffixLength-len(dir)-1))
	if err := accepts(listen(t, path), path); err != nil {
		t.Error(err)
	}
}
