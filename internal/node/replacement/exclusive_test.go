package replacement

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// watchedFS calls before with the name of the file before every Rename and Link.
type watchedFS struct {
	store.FS
	before func(name string)
}

func (f watchedFS) Rename(from, to string) error { f.before(to); return f.FS.Rename(from, to) }
func (f watchedFS) Link(name, second string) error {
	f.before(name)
	return f.FS.Link(name, second)
}

// TestNoAgentWhileItIsWritten: from the first change to the last, no agent can open the state.
// After that, an agent can open it.
func TestNoAgentWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, name := range []string{path, path + lockSuffix} {
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opens := func() error {
		l, err := store.OS().Lock(path + lockSuffix)
		if err != nil {
			return err
		}
		return l.Close()
	}
	changes := 0
	fsys := watchedFS{store.OS(), func(name string) {
		changes++
		if err := opens(); !errors.Is(err, store.ErrLocked) {
			t.Errorf("while %s is changed an agent can lock it: %v", name, err)
		}
	}}
	if err := All(fsys, []*File{{Path: path, Data: []byte("new"), Was: []byte("old")}}); err != nil {
		t.Fatal(err)
	}
	if err := opens(); err != nil || changes != 2 {
		t.Errorf("%d changes; afterwards: %v", changes, err)
	}
	running, err := store.OS().Lock(path + lockSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if err := All(store.OS(), []*File{{Path: path, Data: []byte("x")}}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("with an agent: %v", err)
	}
}

// TestChangedAfterItWasRead: if another process writes the file while a person thinks about the
// question, that content stays.
func TestChangedAfterItWasRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu_manager_state")
	if err := os.WriteFile(path, []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := All(store.OS(), []*File{{Path: path, Data: []byte("repaired"), Was: []byte("read")}})
	if err == nil || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "newer" {
		t.Errorf("it is %q, %v", got, err)
	}
}

// TestSavedPlanSurvives: once plan --save has ended, the new state survives a loss of power. Before
// that, the file has the old state or the new one. No other file is lost.
func TestSavedPlanSurvives(t *testing.T) {
	found, err := discover.Read("vm", readFile(t, "../../../examples/machines/vm-4cpu.json"))
	if err != nil {
		t.Fatal(err)
	}
	policy, _ := kubeletcfg.Default(found.Machine)
	state, err := node.New(found.Machine, policy)
	if err != nil {
		t.Fatal(err)
	}
	want, err := statefile.Encode(state)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "node.json")
	const before = `{"format":"paddock-state","before":true}`
	disk := func() *crashfs.FS {
		fsys := crashfs.New()
		fsys.Put(path, []byte(before))
		fsys.Put(path+".tmp", []byte("foreign"))
		return fsys
	}
	whole := disk()
	if err := State(whole, path, want); err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole.Ops()) + 1 {
		fsys := disk()
		fsys.CrashAfter(cut)
		saved := State(fsys, path, want) == nil
		for seed := range uint64(8) {
			left := fsys.Left(seed)
			got, err := left.Peek(path)
			foreign, gone := left.Peek(path + ".tmp")
			if err != nil || gone != nil || string(foreign) != "foreign" || !slices.Contains([]string{before, string(want)}, string(got)) || saved && string(got) != string(want) {
				t.Fatalf("after %d operations, saved %v: %q, %v; the other file: %q, %v", cut, saved, got, err, foreign, gone)
			}
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
