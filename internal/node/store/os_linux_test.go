package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/store"
)

// keptOnDisk is like kept on the real file system. It returns the path of the state.
func keptOnDisk(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "paddock", "state")
	s, loaded := mustOpen(t, store.OS(), path)
	if loaded.Source != store.Nothing {
		t.Fatalf("found %v", loaded)
	}
	mustWrite(t, s, seal(1, 20))
	mustWrite(t, s, seal(2, 20))
	mustClose(t, s)
	return path
}

func wantOnDisk(t testing.TB, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

func put(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnDisk(t *testing.T) {
	path := keptOnDisk(t)
	s, loaded := mustOpen(t, store.OS(), path)
	if loaded.Source != store.Current || !bytes.Equal(loaded.Data, seal(2, 20)) {
		t.Errorf("found %v", loaded)
	}
	mustWrite(t, s, seal(3, 20))
	wantOnDisk(t, path, seal(3, 20))
	wantOnDisk(t, path+".previous", seal(2, 20))
	wantOnDisk(t, path+".lock", []byte(strconv.Itoa(os.Getpid())+"\n"))
	modes := map[string]fs.FileMode{}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[e.Name()] = info.Mode()
	}
	if got, want := fmt.Sprint(modes), "map[state:-rw------- state.lock:-rw------- state.previous:-rw-------]"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
}

func TestDamageOnDisk(t *testing.T) {
	cases := map[string][]byte{"flipped bit": flip(seal(2, 20), 77), "truncated": seal(2, 20)[:30], "empty": {}, "zeros": make([]byte, 56)}
	for name, damaged := range cases {
		t.Run(name, func(t *testing.T) {
			path := keptOnDisk(t)
			put(t, path, damaged)
			s, loaded := mustOpen(t, store.OS(), path)
			if loaded.Source != store.Previous || !bytes.Equal(loaded.Data, seal(1, 20)) {
				t.Errorf("found %v", loaded)
			}
			wantOnDisk(t, path, damaged)
			mustWrite(t, s, seal(3, 20))
			mustWrite(t, s, seal(4, 20))
			wantOnDisk(t, path, seal(4, 20))
			wantOnDisk(t, path+".previous", seal(3, 20))
			wantOnDisk(t, path+".damaged-1", damaged)
		})
	}
}

// If something else has the name of the state file or of the lock file, it is left alone and not
// replaced.
func TestNoRegularFile(t *testing.T) {
	kinds := map[string]func(name string) error{
		"a directory":     func(name string) error { return os.Mkdir(name, 0o700) },
		"a symbolic link": func(name string) error { return os.Symlink(filepath.Dir(name)+"/elsewhere", name) },
		"a pipe":          func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a socket": func(name string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
	}
	for kind, create := range kinds {
		for _, suffix := range []string{"", ".lock"} {
			t.Run(kind+suffix, func(t *testing.T) {
				t.Chdir(t.TempDir()) // the path of a socket must be short
				name := "state" + suffix
				s, _ := mustOpen(t, store.OS(), "state")
				mustWrite(t, s, seal(1, 20))
				mustWrite(t, s, seal(2, 20))
				mustClose(t, s)
				put(t, "elsewhere", seal(9, 20))
				if err := errors.Join(os.Remove(name), create(name)); err != nil {
					t.Fatal(err)
				}
				before, err := os.Lstat(name)
				if err != nil {
					t.Fatal(err)
				}
				_, loaded, err := store.Open(store.OS(), "state", limit, whole)
				if !errors.Is(err, store.ErrNotRegular) || !strings.Contains(err.Error(), "not a regular file: it is "+kind) {
					t.Errorf("found %v, error %v", loaded, err)
				}
				if after, err := os.Lstat(name); err != nil || !os.SameFile(before, after) {
					t.Errorf("it is now %v (%v)", after, err)
				}
				wantOnDisk(t, "elsewhere", seal(9, 20))
				wantOnDisk(t, "state.previous", seal(1, 20))
			})
		}
	}
}

// A directory with a name that the store uses does not get in the way, unless it is not empty.
func TestDirectoriesInTheWayOnDisk(t *testing.T) {
	for _, suffix := range []string{".new", ".old"} {
		path := keptOnDisk(t)
		if err := os.MkdirAll(path+suffix+"/full", 0o700); err != nil {
			t.Fatal(err)
		}
		s, _ := mustOpen(t, store.OS(), path)
		err := s.Write(seal(3, 20))
		if !errors.Is(err, syscall.ENOTEMPTY) || !strings.Contains(err.Error(), path+suffix+": remove the leftover file: directory not empty") {
			t.Errorf("%s: %v", suffix, err)
		}
		wantOnDisk(t, path, seal(2, 20))
		if err := os.Remove(path + suffix + "/full"); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, s, seal(3, 20))
		wantOnDisk(t, path, seal(3, 20))
	}
}

func TestSecondAgentIsRejectedOnDisk(t *testing.T) {
	path := keptOnDisk(t)
	s, _ := mustOpen(t, store.OS(), path)
	want := fmt.Sprintf("state file %s: lock %s.lock: locked by process %d; only one agent", path, path, os.Getpid())
	if _, _, err := store.Open(store.OS(), path, limit, whole); !errors.Is(err, store.ErrLocked) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the second one: %v", err)
	}
	put(t, path+".lock", []byte("what is this"))
	if _, _, err := store.Open(store.OS(), path, limit, whole); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "by another process") {
		t.Errorf("the third one: %v", err)
	}
	mustClose(t, s)
	mustOpen(t, store.OS(), path)
}

// A killed agent leaves no lock, and what it wrote is on the disk.
func TestKilledAgentOnDisk(t *testing.T) {
	const variable = "PADDOCK_TEST_STATE"
	if path := os.Getenv(variable); path != "" {
		s, _ := mustOpen(t, store.OS(), path)
		mustWrite(t, s, seal(3, 20))
		fmt.Println("written")
		for range time.Tick(time.Hour) { // until it is killed
			// The garbage collector closes the files of an unused store, which ends its lock. A
			// call that is deferred does not keep it in a function that never returns.
			runtime.KeepAlive(s)
		}
	}
	path := keptOnDisk(t)
	agent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledAgentOnDisk$")
	agent.Env = append(os.Environ(), variable+"="+path)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 8)
	if _, err := out.Read(line); err != nil || string(line) != "written\n" {
		t.Fatalf("the agent says %q, %v", line, err)
	}
	_, _, err = store.Open(store.OS(), path, limit, whole)
	if want := fmt.Sprintf("locked by process %d", agent.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("beside the agent: %v, want %s", err, want)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // it was killed
	if _, loaded := mustOpen(t, store.OS(), path); !bytes.Equal(loaded.Data, seal(3, 20)) {
		t.Errorf("after it was killed: %v", loaded)
	}
}

// asNobody runs f on a thread that is subject to file modes, even if the tests run as root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks it: the thread ends with the goroutine
		err := syscall.Setfsuid(65534)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyDirectoryOnDisk(t *testing.T) {
	path := keptOnDisk(t)
	s, _ := mustOpen(t, store.OS(), path)
	dir := filepath.Dir(path)
	chmod := func(name string, mode fs.FileMode) {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(filepath.Dir(filepath.Dir(dir)), 0o755) // t.TempDir keeps other users out
	chmod(filepath.Dir(dir), 0o755)
	chmod(dir, 0o555)
	asNobody(t, func() {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the directory can be read: %v", err)
		}
		err := s.Write(seal(9, 20))
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "create "+path+".new: permission denied; let the user") {
			t.Errorf("Write: %v", err)
		}
		_, _, err = store.Open(store.OS(), dir+"/other", limit, whole)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "lock "+dir+"/other.lock: permission denied; let the user") {
			t.Errorf("Open: %v", err)
		}
	})
	chmod(dir, 0o755)
	mustWrite(t, s, seal(3, 20))
	wantOnDisk(t, path, seal(3, 20))
	wantOnDisk(t, path+".previous", seal(2, 20))
}

func TestDirectoryThatIsAFile(t *testing.T) {
	path := keptOnDisk(t)
	for _, below := range []string{"/state", "/deep/state"} {
		_, _, err := store.Open(store.OS(), path+below, limit, whole)
		if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "make directory "+filepath.Dir(path+below)+": not a directory") {
			t.Errorf("%s: %v", below, err)
		}
	}
}

func BenchmarkWriteOnDisk(b *testing.B) {
	s, _ := mustOpen(b, store.OS(), filepath.Join(b.TempDir(), "state"))
	data := seal(1, 300<<10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		mustWrite(b, s, data)
	}
}

func BenchmarkOpenOnDisk(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state")
	s, _ := mustOpen(b, store.OS(), path)
	mustWrite(b, s, seal(1, 300<<10))
	mustClose(b, s)
	b.ReportAllocs()
	for b.Loop() {
		s, _, err := store.Open(store.OS(), path, limit, whole)
		if err != nil {
			b.Fatal(err)
		}
		mustClose(b, s)
	}
}
