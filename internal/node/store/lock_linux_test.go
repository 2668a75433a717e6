package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
)

// other is a second process that has the store open. It writes one generation for each input line,
// and answers "written" or the error.
type other struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

const otherVariable = "PADDOCK_TEST_OTHER"

// TestOtherProcess is not a test. It is the main function of the other process.
func TestOtherProcess(t *testing.T) {
	path := os.Getenv(otherVariable)
	if path == "" {
		return // Only the tests below set it.
	}
	s, _ := mustOpen(t, store.OS(), path)
	fmt.Println("open")
	lines := bufio.NewScanner(os.Stdin)
	for n := 100; lines.Scan(); n++ {
		if err := s.Write(seal(n, 20)); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("written")
	}
}

func startOther(t *testing.T, path string) *other {
	t.Helper()
	agent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOtherProcess$")
	agent.Env = append(os.Environ(), otherVariable+"="+path)
	in, err := agent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	o := &other{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = agent.Wait() // it ends with its input
	})
	o.answers("open")
	return o
}

func (o *other) answers(want string) {
	o.t.Helper()
	if got, err := o.out.ReadString('\n'); err != nil || !strings.Contains(got, want) {
		o.t.Errorf("the other process says %q (%v), want %q", got, err, want)
	}
}

// write makes the other process write a generation.
func (o *other) write(want string) {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, "write"); err != nil {
		o.t.Fatal(err)
	}
	o.answers(want)
}

func wantLocked(t *testing.T, path string) {
	t.Helper()
	if _, _, err := store.Open(store.OS(), path, limit, whole); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "stop the other one") {
		t.Errorf("a second agent: %v, want that it is locked", err)
	}
}

// The lock file, or everything in the directory, is removed while an agent runs. No other agent
// starts, and the running agent continues and creates the lock file again.
func TestLockFileIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed": func(path string) error { return os.Remove(path + ".lock") },
		"renamed": func(path string) error { return os.Rename(path+".lock", path+".lock.old") },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path+".lock"), os.WriteFile(path+".lock", nil, 0o600))
		},
		"all removed": func(path string) error {
			return errors.Join(os.Remove(path+".lock"), os.Remove(path), os.Remove(path+".previous"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := keptOnDisk(t)
			o := startOther(t, path)
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			wantLocked(t, path)
			wantLocked(t, path) // the first attempt created a lock file
			o.write("written")
			wantOnDisk(t, path, seal(100, 20))
			wantLocked(t, path)
			o.write("written")
			wantOnDisk(t, path+".previous", seal(100, 20))
			if err := os.Remove(path + ".lock"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The directory is moved away while an agent runs, and another agent starts in a new directory.
// Until it ends, the new agent is the only one that writes.
func TestDirectoryIsReplaced(t *testing.T) {
	path := keptOnDisk(t)
	o := startOther(t, path)
	dir := filepath.Dir(path)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	o.write("no such file or directory")
	s, loaded := mustOpen(t, store.OS(), path)
	if loaded.Source != store.Nothing {
		t.Errorf("found %v", loaded)
	}
	mustWrite(t, s, seal(1, 5))
	o.write(fmt.Sprintf("locked by process %d", os.Getpid()))
	wantOnDisk(t, path, seal(1, 5))
	mustWrite(t, s, seal(2, 5))
	mustClose(t, s)
	o.write("written")
	wantLocked(t, path)
}

// Keep, too, needs the lock.
func TestKeepNeedsTheLock(t *testing.T) {
	path := keptOnDisk(t)
	first, _ := mustOpen(t, store.OS(), path)
	dir := filepath.Dir(path)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, store.OS(), path)
	if name, err := first.Keep([]byte("x")); !errors.Is(err, store.ErrLocked) {
		t.Errorf("kept as %q, %v", name, err)
	}
}

// Two states in one directory would share one lock, so opening the second one fails.
func TestOneStateInADirectory(t *testing.T) {
	path := keptOnDisk(t)
	mustOpen(t, store.OS(), path)
	_, _, err := store.Open(store.OS(), path+"-2", limit, whole)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "directory "+filepath.Dir(path)+" is locked by another process") {
		t.Errorf("another state in the same directory: %v", err)
	}
}

// Several goroutines try to lock while the file is removed repeatedly. There is never more than one
// lock.
func TestNeverTwoLocks(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state.lock")
	var holders, most, taken int
	var count sync.Mutex
	add := func(n int) {
		count.Lock()
		defer count.Unlock()
		holders += n
		most, taken = max(most, holders), taken+max(n, 0)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 400 {
				l, err := store.OS().Lock(name)
				if err != nil {
					if !errors.Is(err, store.ErrLocked) {
						t.Error(err)
					}
					continue
				}
				add(1)
				if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
				if err := l.Hold(); err != nil && !errors.Is(err, store.ErrLocked) {
					t.Error(err)
				}
				add(-1)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if most != 1 || taken == 0 {
		t.Errorf("%d had the lock at once, it was taken %d times", most, taken)
	}
}
