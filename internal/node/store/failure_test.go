package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

var diskErrors = []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO, syscall.EACCES}

// TestWriteFailsAtEveryOperation makes each operation of a Write fail, first alone and then
// together with all operations after it. Write reports the error, the state is the previous one
// unless the error is ErrUncertain, and the next Write works as if nothing had happened.
func TestWriteFailsAtEveryOperation(t *testing.T) {
	const steps = 9
	for _, cause := range diskErrors {
		for k := 1; k <= steps+1; k++ {
			for _, lasting := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/%v", cause, k, lasting), func(t *testing.T) {
					f := kept(t)
					s, _ := mustOpen(t, f, path)
					fail, n := crashfs.At, len(f.Ops())+k
					if lasting {
						fail = func(n int, err error) func(crashfs.Op) error { return crashfs.From(n, err) }
					}
					f.Inject(fail(n, cause))
					err := s.Write(seal(3, 9))
					f.Inject(nil)
					if k > steps {
						if err != nil {
							t.Fatal(err)
						}
						return
					}
					checkFailedWrite(t, f, err, cause, k == steps)
					mustWrite(t, s, seal(4, 9))
					wantFile(t, f, path, seal(4, 9))
					wantFile(t, f, path+".previous", seal(2, 20))
					mustWrite(t, s, seal(5, 9))
					wantFile(t, f, path+".previous", seal(4, 9))
					wantNames(t, f, "state", "state.lock", "state.previous")
				})
			}
		}
	}
}

func checkFailedWrite(t *testing.T, f *crashfs.FS, err, cause error, uncertain bool) {
	t.Helper()
	var told *store.Error
	if !errors.Is(err, cause) || errors.Is(err, store.ErrUncertain) != uncertain || !errors.As(err, &told) ||
		told.Path != path || told.Op == "" || told.Advice == "" {
		t.Fatalf("Write: %v", err)
	}
	for seed := range uint64(20) {
		s, loaded := mustOpen(t, f.Left(seed), path)
		mustClose(t, s)
		if bytes.Equal(loaded.Data, seal(2, 20)) || uncertain && bytes.Equal(loaded.Data, seal(3, 9)) {
			continue
		}
		t.Errorf("after %v and seed %d: found %v", err, seed, loaded)
	}
}

// A failure while the state is uncertain leaves it uncertain. PATH.previous remains the generation
// that was acknowledged last.
func TestUncertainUntilAWriteSucceeds(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	f.Inject(crashfs.From(1, syscall.EIO, "syncdir"))
	for n := range 3 {
		if err := s.Write(seal(10+n, 9)); !errors.Is(err, store.ErrUncertain) {
			t.Fatalf("sync of the directory fails: %v", err)
		}
		wantFile(t, f, path+".previous", seal(2, 20))
	}
	f.Inject(crashfs.From(1, syscall.ENOSPC, crashfs.Full...))
	if err := s.Write(seal(20, 9)); !errors.Is(err, store.ErrUncertain) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("and then the disk is full: %v", err)
	}
	f.Inject(nil)
	mustWrite(t, s, seal(3, 9))
	wantFile(t, f, path+".previous", seal(2, 20))
	f.Inject(crashfs.From(1, syscall.ENOSPC, crashfs.Full...))
	if err := s.Write(seal(4, 9)); err == nil || errors.Is(err, store.ErrUncertain) {
		t.Errorf("the disk is full, after a success: %v", err)
	}
}

// A damaged file stays until it has another, synced name, whatever fails.
func TestDamagedIsKeptThroughFailures(t *testing.T) {
	const steps = 9 // hold, create, write, sync, close, link, syncdir, rename, syncdir
	for k := 1; k <= steps; k++ {
		f := kept(t)
		f.Put(path, []byte("broken"))
		s, _ := mustOpen(t, f, path)
		f.Inject(crashfs.At(len(f.Ops())+k, syscall.EIO))
		if err := s.Write(seal(3, 9)); !errors.Is(err, syscall.EIO) || errors.Is(err, store.ErrUncertain) != (k == steps) {
			t.Errorf("operation %d: %v", k, err)
		}
		for seed := range uint64(20) {
			after := f.Left(seed)
			current, _ := after.Peek(path)
			unmanaged, _ := after.Peek(path + ".damaged-1")
			if string(current) != "broken" && string(unmanaged) != "broken" {
				t.Errorf("operation %d, seed %d: it is gone", k, seed)
			}
		}
		mustWrite(t, s, seal(4, 9))
		wantFile(t, f, path, seal(4, 9))
		wantFile(t, f, path+".previous", seal(1, 20))
		wantFile(t, f, path+".damaged-1", []byte("broken"))
	}
}

// A file that Open cannot read is not damaged, so an older generation must not replace it.
func TestOpenFailsAtEveryOperation(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		for _, cause := range diskErrors {
			for k := 1; ; k++ {
				f := kept(t)
				if damaged {
					f.Put(path, []byte("broken"))
				}
				before, n := names(t, f), len(f.Ops())
				f.Inject(crashfs.At(n+k, cause))
				s, loaded, err := store.Open(f, path, limit, whole)
				f.Inject(nil)
				if len(f.Ops()) < n+k {
					mustClose(t, s)
					break
				}
				if last := f.Ops()[n+k-1]; last.Kind == "open" && strings.Contains(last.Name, ".damaged-") {
					// A name that cannot be checked counts as taken.
					if err != nil || loaded.KeptAs != path+".damaged-2" {
						t.Errorf("%v: found %v, %v", last, loaded, err)
					}
					mustClose(t, s)
					continue
				}
				if s != nil || loaded.Source != store.Nothing || !errors.Is(err, cause) || errors.Is(err, store.ErrDamaged) {
					t.Errorf("operation %d: found %v, error %v", k, loaded, err)
				}
				if after := names(t, f); after != before {
					t.Errorf("operation %d: names %s, before %s", k, after, before)
				}
				s, _ = mustOpen(t, f, path) // the failed Open leaves no lock
				mustClose(t, s)
			}
		}
	}
}

func names(t *testing.T, f *crashfs.FS) string {
	t.Helper()
	all, err := f.Names(dir)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestWhatFailuresSay(t *testing.T) {
	cases := []struct {
		kind  string
		cause error
		want  string
	}{
		{"write", syscall.ENOSPC, "state file /var/lib/paddock/state: write /var/lib/paddock/state.new: no space left on device; free some space on the file system of /var/lib/paddock"},
		{"write", syscall.EDQUOT, "state file /var/lib/paddock/state: write /var/lib/paddock/state.new: disk quota exceeded; free some space on the file system of /var/lib/paddock"},
		{"create", syscall.EROFS, "state file /var/lib/paddock/state: create /var/lib/paddock/state.new: read-only file system; make the file system of /var/lib/paddock writable; if it was writable before, see the kernel log for the reason"},
		{"create", syscall.EACCES, "state file /var/lib/paddock/state: create /var/lib/paddock/state.new: permission denied; let the user of this process read and write /var/lib/paddock and the files in it"},
		{"link", syscall.EPERM, "state file /var/lib/paddock/state: link /var/lib/paddock/state to /var/lib/paddock/state.old: operation not permitted; let the user of this process read and write /var/lib/paddock, and keep the file on a file system that has hard links, such as ext4 or xfs"},
		{"link", syscall.EOPNOTSUPP, "state file /var/lib/paddock/state: link /var/lib/paddock/state to /var/lib/paddock/state.old: operation not supported; keep the file on a local file system that has hard links and can sync directories, such as ext4 or xfs"},
		{"syncdir", syscall.EIO, "state file /var/lib/paddock/state: sync directory /var/lib/paddock: input/output error (a power failure could leave either the old or the new file until a write succeeds); the disk fails: see the kernel log"},
		{"rename", syscall.EBUSY, "state file /var/lib/paddock/state: rename /var/lib/paddock/state.old to /var/lib/paddock/state.previous: device or resource busy"},
	}
	for _, c := range cases {
		f := kept(t)
		s, _ := mustOpen(t, f, path)
		f.Inject(crashfs.From(1, c.cause, c.kind))
		if err := s.Write(seal(3, 9)); err == nil || err.Error() != c.want {
			t.Errorf("%s fails with %v:\n got %v\nwant %s", c.kind, c.cause, err, c.want)
		}
	}
}

// The agent is killed before the directory is synced. The next agent reads what the kernel has and
// acts on it, and then the power fails.
func TestWhatOpenReturnsIsDurable(t *testing.T) {
	f := kept(t)
	s, _ := mustOpen(t, f, path)
	f.Inject(crashfs.From(1, syscall.EIO, "syncdir"))
	if err := s.Write(seal(3, 9)); !errors.Is(err, store.ErrUncertain) {
		t.Fatalf("Write: %v", err)
	}
	f.Inject(nil)
	f.Kill()
	if _, loaded := mustOpen(t, f, path); !bytes.Equal(loaded.Data, seal(3, 9)) {
		t.Fatalf("found %v", loaded)
	}
	for seed := range uint64(50) {
		wantFile(t, f.Left(seed), path, seal(3, 9))
	}
}

// Writes that fail must not fill a full disk further.
func TestFailedWriteGivesItsSpaceBack(t *testing.T) {
	for _, kind := range []string{"write", "sync", "close", "link", "rename"} {
		f := kept(t)
		s, _ := mustOpen(t, f, path)
		f.Inject(crashfs.From(1, syscall.ENOSPC, kind))
		if err := s.Write(seal(3, 9)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Write: %v", err)
		}
		if _, err := f.Peek(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s fails: the new file is still there (%v)", kind, err)
		}
	}
}
