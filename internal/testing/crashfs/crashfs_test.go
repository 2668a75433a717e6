package crashfs_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// writer performs operations and fails the test if one fails.
type writer struct {
	t *testing.T
	f *crashfs.FS
}

func (w writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w writer) create(name, data string, sync bool) {
	w.t.Helper()
	file, err := w.f.Create(name)
	w.must(err)
	_, err = file.Write([]byte(data))
	w.must(err)
	if sync {
		w.must(file.Sync())
	}
	w.must(file.Close())
}

// look describes a directory as "a=content b=content".
func look(t *testing.T, f *crashfs.FS) string {
	t.Helper()
	names, err := f.Names("/d")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		data, err := f.Peek("/d/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name+"="+strings.ReplaceAll(string(data), "\x00", "0"))
	}
	return strings.Join(all, " ")
}

func begin(t *testing.T) writer {
	t.Helper()
	f := crashfs.New()
	if err := f.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	return writer{t, f}
}

// For everything that may be left after a power loss there is a seed that leaves it, and no seed
// leaves anything else.
func TestWhatIsLeft(t *testing.T) {
	cases := map[string]struct {
		do   func(w writer)
		want []string // sorted; "" is an empty directory
	}{
		"all synced": {func(w writer) {
			w.create("/d/a", "xy", true)
			w.must(w.f.SyncDir("/d"))
		}, []string{"a=xy"}},
		"name not synced": {func(w writer) {
			w.create("/d/a", "xy", true)
		}, []string{"", "a=xy"}},
		"content not synced": {func(w writer) {
			w.create("/d/a", "xy", false)
			w.must(w.f.SyncDir("/d"))
		}, []string{"a=", "a=00", "a=x", "a=x0", "a=xy"}},
		"rename": {func(w writer) {
			w.create("/d/a", "x", true)
			w.create("/d/b", "y", true)
			w.must(w.f.SyncDir("/d"))
			w.must(w.f.Rename("/d/b", "/d/a"))
		}, []string{"a=x", "a=x b=y", "a=y", "a=y b=y"}},
		"link and remove": {func(w writer) {
			w.create("/d/a", "x", true)
			w.must(w.f.SyncDir("/d"))
			w.must(w.f.Link("/d/a", "/d/b"))
			w.must(w.f.Remove("/d/a"))
		}, []string{"", "a=x", "a=x b=x", "b=x"}},
		"two renames": {func(w writer) {
			for _, name := range []string{"/d/a", "/d/b", "/d/c"} {
				w.create(name, name[3:], true)
			}
			w.must(w.f.SyncDir("/d"))
			w.must(w.f.Rename("/d/b", "/d/a"))
			w.must(w.f.Rename("/d/c", "/d/a"))
			w.must(w.f.SyncDir("/d"))
		}, []string{"a=c"}},
		"rename to itself": {func(w writer) {
			w.create("/d/a", "x", true)
			w.must(w.f.Link("/d/a", "/d/b"))
			w.must(w.f.Rename("/d/a", "/d/b"))
			w.must(w.f.SyncDir("/d"))
		}, []string{"a=x b=x"}},
	}
	for name, c := range cases {
		w := begin(t)
		c.do(w)
		found := map[string]bool{}
		for seed := range uint64(500) {
			found[look(t, w.f.Left(seed))] = true
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if now, all := look(t, w.f), look(t, w.f.Left(crashfs.KeepAll)); now != all {
			t.Errorf("%s: KeepAll leaves %q of %q", name, all, now)
		}
	}
}

// After a failed sync, a second sync wrongly reports success.
func TestFailedSyncLosesContent(t *testing.T) {
	w := begin(t)
	file, err := w.f.Create("/d/a")
	w.must(err)
	_, err = file.Write([]byte("xy"))
	w.must(err)
	w.f.Inject(crashfs.From(1, syscall.EIO, "sync"))
	if err := file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	w.f.Inject(nil)
	w.must(file.Sync())
	w.must(w.f.SyncDir("/d"))
	for seed := uint64(2); seed < 50; seed++ {
		if got := look(t, w.f.Left(seed)); got != "a=" {
			t.Errorf("seed %d leaves %q", seed, got)
		}
	}
}

func TestFailedWriteWritesHalf(t *testing.T) {
	w := begin(t)
	file, err := w.f.Create("/d/a")
	w.must(err)
	w.f.Inject(crashfs.At(len(w.f.Ops())+1, syscall.ENOSPC))
	if n, err := file.Write([]byte("four")); n != 2 || !errors.Is(err, syscall.ENOSPC) || look(t, w.f) != "a=fo" {
		t.Errorf("%d bytes written, %v, now %q", n, err, look(t, w.f))
	}
	if n, err := file.Write([]byte("four")); n != 4 || err != nil {
		t.Errorf("%d bytes written, %v", n, err)
	}
}

func TestNothingWorksAfterACrash(t *testing.T) {
	w := begin(t)
	w.create("/d/a", "x", true)
	file, err := w.f.Create("/d/b")
	w.must(err)
	reader, err := w.f.Open("/d/a")
	w.must(err)
	lock, err := w.f.Lock("/d/lock")
	w.must(err)
	if _, err := w.f.Lock("/d/lock"); !errors.Is(err, store.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	after := w.f.Crash(crashfs.KeepAll)
	count := len(w.f.Ops())
	_, write := file.Write([]byte("y"))
	_, read := io.ReadAll(reader)
	_, create := w.f.Create("/d/c")
	_, open := w.f.Open("/d/a")
	_, again := w.f.Lock("/d/other")
	for i, err := range []error{
		write, read, create, open, again, file.Sync(), file.Close(), lock.Close(), w.f.MkdirAll("/e"), w.f.SyncDir("/d"),
		w.f.Link("/d/a", "/d/c"), w.f.Rename("/d/a", "/d/c"), w.f.Remove("/d/a"),
	} {
		if !errors.Is(err, crashfs.ErrCrashed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got := look(t, w.f); got != "a=x b= lock=" || got != look(t, after) || len(w.f.Ops()) != count || len(after.Ops()) != 0 {
		t.Errorf("%q is left, %q found, operations %v", got, look(t, after), w.f.Ops()[count:])
	}
	_, err = after.Lock("/d/lock")
	w.must(err)
}

func TestErrorsOfNames(t *testing.T) {
	w := begin(t)
	w.create("/d/a", "x", true)
	_, create := w.f.Create("/d/a")
	_, open := w.f.Open("/d/b")
	_, nowhere := w.f.Create("/e/a")
	_, lock := w.f.Lock("/e/a")
	for i, c := range []struct{ got, want error }{
		{create, fs.ErrExist},
		{open, fs.ErrNotExist},
		{nowhere, fs.ErrNotExist},
		{lock, fs.ErrNotExist},
		{w.f.Link("/d/a", "/d/a"), fs.ErrExist},
		{w.f.Link("/d/b", "/d/c"), fs.ErrNotExist},
		{w.f.Link("/d/a", "/e/c"), fs.ErrNotExist},
		{w.f.Rename("/d/b", "/d/c"), fs.ErrNotExist},
		{w.f.Rename("/d/a", "/e/c"), fs.ErrNotExist},
		{w.f.Remove("/d/b"), fs.ErrNotExist},
		{w.f.SyncDir("/e"), fs.ErrNotExist},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%d: %v, want %v", i, c.got, c.want)
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	w := begin(t)
	var group sync.WaitGroup
	for _, name := range []string{"/d/a", "/d/b", "/d/c"} {
		group.Go(func() {
			for range 50 {
				file, err := w.f.Create(name)
				if err == nil {
					_, err = file.Write([]byte(name))
				}
				if err := errors.Join(err, w.f.SyncDir("/d"), w.f.Remove(name)); err != nil {
					t.Error(err)
				}
				w.f.Left(1)
			}
		})
	}
	group.Wait()
	if got := len(w.f.Ops()); got != 1+3*50*4 {
		t.Errorf("%d operations", got)
	}
}
