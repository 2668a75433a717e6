package agent

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-project/paddock/internal/node/store"
)

var freeze = flag.Duration("freeze", 2*time.Second, "for how long TestFrozenDisk freezes the file system of the state")

// Requests of fsfreeze(8), from linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// frozen is a file system in a file that can be frozen. The test is skipped if this is not
// permitted, unless PADDOCK_REQUIRE_FREEZE is set.
type frozen struct {
	t   *testing.T
	dir *os.File
}

func newFrozen(t *testing.T) *frozen {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, command := range [][]string{
		{"truncate", "--size", "32M", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			lacks := fmt.Sprintf("a file system to freeze cannot be made here: %s: %v: %s", strings.Join(command, " "), err, out)
			if os.Getenv("PADDOCK_REQUIRE_FREEZE") != "" {
				t.Fatal(lacks)
			}
			t.Skip(lacks)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	z := &frozen{t, f}
	t.Cleanup(func() {
		z.thaw()
		_ = f.Close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return z
}

func (z *frozen) freeze() {
	z.t.Helper()
	if err := unix.IoctlSetInt(int(z.dir.Fd()), fiFreeze, 0); err != nil {
		z.t.Fatal("freeze:", err)
	}
}

func (z *frozen) thaw() { _ = unix.IoctlSetInt(int(z.dir.Fd()), fiThaw, 0) }

// TestFrozenDisk freezes the file system of the state for a while, like fsfreeze(8) or a storage
// array that fails over. Every request of the runtime is answered within a second, pods that were
// admitted before restart at once on their CPUs, no pod runs unpinned, and the pod whose admission
// could not be written is admitted afterwards.
func TestFrozenDisk(t *testing.T) {
	z := newFrozen(t)
	b := newBench(t)
	b.config.State = filepath.Join(z.dir.Name(), "paddock", "state.json")
	b.write("old.yaml", manifest("old 2"))
	a, err := b.try(store.OS())
	if err != nil {
		t.Fatal(err)
	}
	r := b.runs(a)
	r.until(t, "old/c=")
	before := runs(a)
	z.freeze()
	begin := time.Now()
	b.write("new.yaml", manifest("new 3"))
	for time.Since(begin) < *freeze {
		// If this waited for the disk, it would not return before the thaw.
		if err := a.kubelet.RestartContainer(t.Context(), "old", "c"); err != nil {
			t.Errorf("a container of a pod that was admitted before does not restart: %v", err)
		}
		if now := runs(a); now != before && now != "" {
			t.Fatalf("while the disk is frozen: %s, before: %s", now, before)
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // The disk is a real one.
	}
	contains(t, "log", b.log.take(), "has not confirmed the write in time")
	z.thaw()
	r.until(t, "new/c=")
	within, all := hookAnswers(t, a)
	if within != all || all == 0 {
		t.Errorf("%d of %d requests of the runtime were answered within a second", within, all)
	}
	t.Logf("frozen for %v: %d requests of the runtime, all answered within a second", *freeze, all)
	r.stop(t)
}

// hookAnswers counts the requests of the runtime, and those that were answered within a second.
func hookAnswers(t *testing.T, a *Agent) (within, all int) {
	t.Helper()
	w := httptest.NewRecorder()
	a.handler(t.Context()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", http.NoBody))
	sum := func(pattern string) (n int) {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(w.Body.String(), -1) {
			k, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
		return n
	}
	return sum(`(?m)^paddock_runtime_hook_duration_seconds_bucket\{hook="[A-Za-z]+",le="1"\} (\d+)$`), sum(`(?m)^paddock_runtime_hook_duration_seconds_count\{hook="[A-Za-z]+"\} (\d+)$`)
}
