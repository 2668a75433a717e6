package replacement

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
)

// TestNotOpen simulates processes in a directory like /proc.
func TestNotOpen(t *testing.T) {
	dir := t.TempDir()
	node, proc := filepath.Join(dir, "kubelet"), filepath.Join(dir, "proc")
	state := filepath.Join(node, "cpu_manager_state")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid, comm, cmdline string) string {
		write(filepath.Join(proc, pid, "comm"), comm+"\n")
		write(filepath.Join(proc, pid, "cmdline"), strings.ReplaceAll(cmdline, " ", "\x00")+"\x00")
		return filepath.Join(proc, pid)
	}
	want := func(what string) {
		t.Helper()
		switch err := notOpen(proc, state); {
		case (err == nil) != (what == ""):
			t.Errorf("got %v, want %q", err, what)
		case err != nil && !strings.Contains(err.Error(), what):
			t.Errorf("got %v, want %q", err, what)
		}
	}
	write(state, "{}")
	want("")
	process("11", "bash", "bash")
	process("12", "kubelet", "/usr/bin/kubelet --root-dir=/elsewhere")
	process("self", "kubelet", "kubelet --root-dir="+node)
	want("")
	kubelet := process("13", "kubelet", "/usr/bin/kubelet --v=2 --root-dir "+node)
	want("the kubelet runs (process 13)")
	if err := os.RemoveAll(kubelet); err != nil {
		t.Fatal(err)
	}
	want("")
	for pid, c := range map[string]struct{ comm, file string }{"14": {"vi", state}, "15": {"paddock", state + lockSuffix}} {
		at := process(pid, c.comm, c.comm)
		if err := errors.Join(os.Mkdir(filepath.Join(at, "fd"), 0o700), os.Symlink(c.file, filepath.Join(at, "fd", "3"))); err != nil {
			t.Fatal(err)
		}
		want("process " + pid + " (" + c.comm + ") has it open")
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
	}
	proc = filepath.Join(dir, "nowhere")
	want("")
}

// TestAll: either all files are replaced or none, and the old files are kept.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	if err := os.WriteFile(name("a"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []*File{{Path: name("a"), Data: []byte("new")}, {Path: name("b"), Data: []byte("too")}}
	if err := All(store.OS(), files); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a": "new", "b": "too", "a.before-1": "old"} {
		if got, err := os.ReadFile(name(path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if files[0].Kept != name("a.before-1") || files[1].Kept != "" {
		t.Errorf("kept as %q and %q", files[0].Kept, files[1].Kept)
	}
	unwritable := []*File{{Path: name("a"), Data: []byte("x")}, {Path: name("nowhere/c"), Data: nil}}
	if err := All(store.OS(), unwritable); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(name("a")); err != nil || string(got) != "new" {
		t.Errorf("a is %q, %v", got, err)
	}
	if _, err := os.Stat(name("a" + newSuffix)); !os.IsNotExist(err) {
		t.Errorf("what was written for nothing is still there: %v", err)
	}
	if err := os.Symlink(name("a"), name("link")); err != nil {
		t.Fatal(err)
	}
	if err := All(store.OS(), []*File{{Path: name("link"), Data: nil}}); err == nil {
		t.Error("a symbolic link was replaced")
	}
}

func TestIsKept(t *testing.T) {
	for name, expected := range map[string]bool{
		"memory_manager_state.before-1": true, "cpu_manager_state.before-99": true,
		"memory_manager_state": false, "x.before-": false, "x.before-0": false, "x.before-100": false, "x.before-1.json": false,
	} {
		if got := IsKept(name); got != expected {
			t.Errorf("%s: %v, expected %v", name, got, expected)
		}
	}
}
