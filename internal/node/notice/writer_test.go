package notice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/notice"
)

// disk implements Files in memory. It can stall and fail.
type disk struct {
	mu     sync.Mutex
	files  map[string]string // by uid/container; "" is a directory without a file
	writes int
	broken error
	stall  chan struct{} // if not nil, every operation waits for it
}

func (d *disk) enter() error {
	d.mu.Lock()
	wait, err := d.stall, d.broken
	d.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return err
}

func (d *disk) Dir(uid, container string) string {
	return "/run/paddock/notices/" + uid + "/" + container
}

func (d *disk) Write(uid, container string, data []byte) error {
	if err := d.enter(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[uid+"/"+container] = string(data)
	d.writes++
	return nil
}

func (d *disk) Read(uid, container string) ([]byte, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := d.files[uid+"/"+container]; text != "" {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (d *disk) List() (map[string][]string, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]string{}
	for name := range d.files {
		uid, container, _ := strings.Cut(name, "/")
		all[uid] = append(all[uid], container)
	}
	return all, nil
}

func (d *disk) Remove(uid string) error {
	if err := d.enter(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.files, func(name, _ string) bool { return strings.HasPrefix(name, uid+"/") })
	return nil
}

func (d *disk) set(change func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// has returns a file as one line, e.g. "3: 2-5 on 0, node; 8-11 on 1 from 12:00:10". If the file
// does not exist, it returns the names of the files.
func (d *disk) has(t testing.TB, name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, there := d.files[name]
	if !there {
		return strings.Join(slices.Sorted(maps.Keys(d.files)), " ")
	}
	var n notice.Notice
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.APIVersion != notice.Version || n.Kind != "Notice" || n.UID+"/"+n.Container != name {
		t.Fatalf("%v in %s", err, text)
	}
	line := fmt.Sprintf("%d: %s on %s, %s", n.Revision, n.CPUs, n.Mems, n.SharedWith)
	if p := n.Pending; p != nil {
		line += fmt.Sprintf("; %s on %s from %s", p.CPUs, p.Mems, p.Deadline.Format(time.TimeOnly))
	}
	return line
}

// bench is a writer on a disk, in a bubble.
type bench struct {
	*notice.Writer
	disk *disk
	log  *bytes.Buffer
	end  context.CancelFunc
	// wrote and failed count attempts to write. missed counts containers without a notice.
	wrote, failed, missed atomic.Int64
}

func (b *bench) Wrote(err error) {
	if b.wrote.Add(1); err != nil {
		b.failed.Add(1)
	}
}

func (b *bench) Missed() { b.missed.Add(1) }

func start(t testing.TB, d *disk) *bench {
	b := &bench{disk: d, log: &bytes.Buffer{}}
	b.Writer = notice.New(notice.Config{Files: d, After: time.After, Log: slog.New(slog.NewTextHandler(b.log, nil)), Observer: b})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}()
	b.end = func() {
		end()
		<-done
	}
	return b
}

// pass lets time pass on the clock of the bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // It takes no time.

func on(cpus string, mems ...int) notice.Setting {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	s := notice.Setting{CPUs: set, Mems: mask.Of(mems...), Level: node.ContainerIsolation}
	if cpus == "0-1" {
		s.Level = node.HostIsolation
	}
	return s
}

// open creates a container that asks for a notice, and returns its mount.
func (b *bench) open(t testing.TB, uid, name string, has notice.Setting) string {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return b.Open(ctx, notice.Container{Namespace: "default", Pod: "pod-" + uid, UID: uid, Name: name, Annotations: map[string]string{notice.Annotation: "*"}}, has)
}

// in runs a test in a bubble, with an empty disk.
func in(t *testing.T, run func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &disk{files: map[string]string{}})
		run(t, b)
		b.end()
	})
}

func (b *bench) want(t testing.TB, name, want string) {
	t.Helper()
	synctest.Wait()
	if got := b.disk.has(t, name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// While the disk is full, an observer counts an attempt every Retry, and the container that starts
// without its notice.
func TestObserver(t *testing.T) {
	in(t, func(t *testing.T, b *bench) {
		b.open(t, "u", "c", on("2-5", 0))
		b.disk.set(func(d *disk) { d.broken = errors.New("no space left on device") })
		b.open(t, "u", "full", on("6", 0))
		pass(2*notice.Retry + time.Second)
		b.disk.set(func(d *disk) { d.broken = nil })
		pass(notice.Retry)
		if wrote, failed, missed := b.wrote.Load(), b.failed.Load(), b.missed.Load(); wrote != 5 || failed != 3 || missed != 1 {
			t.Errorf("%d attempts, %d failed, %d containers without a notice", wrote, failed, missed)
		}
		if n := b.Containers(); n != 2 {
			t.Errorf("%d containers have a notice", n)
		}
	})
}

// A container is created, moved after an announcement, loses CPUs to other containers, and is
// created again.
func TestLife(t *testing.T) {
	in(t, func(t *testing.T, b *bench) {
		if got, want := b.open(t, "u", "c", on("2-5", 0)), "/run/paddock/notices/u/c"; got != want {
			t.Errorf("mounted from %q, want %q", got, want)
		}
		b.want(t, "u/c", "1: 2-5 on 0, none")
		b.Pending("u", "c", notice.Change{CPUs: on("8-11").CPUs, Mems: mask.Of(1), Deadline: time.Now().Add(10 * time.Second)})
		b.want(t, "u/c", "2: 2-5 on 0, none; 8-11 on 1 from 00:00:10")
		b.Changed("u", "c", on("2-5,8-11", 0, 1))
		b.want(t, "u/c", "3: 2-5,8-11 on 0-1, none; 8-11 on 1 from 00:00:10")
		b.Changed("u", "c", on("8-11", 1))
		b.want(t, "u/c", "4: 8-11 on 1, none")
		b.Pending("u", "c", notice.Change{CPUs: on("2-5").CPUs, Mems: mask.Of(0), Deadline: time.Now()})
		b.Settled("u")
		b.Settled("other")
		b.Changed("u", "c", on("8-11", 1))
		synctest.Wait()
		b.Changed("u", "other", on("7", 1))
		b.Changed("u", "c", on("0-1", 0, 1))
		synctest.Wait()
		if got := b.disk.has(t, "u/c"); !strings.HasSuffix(got, ": 0-1 on 0-1, node") {
			t.Errorf("the node shared pool is %q", got)
		}
		before := b.disk.writes
		b.Changed("u", "c", on("0-1", 0, 1))
		synctest.Wait()
		if b.disk.writes != before {
			t.Error("a setting that is no other one was written")
		}
		b.disk.set(func(d *disk) { clear(d.files) }) // Another process removes the files.
		if b.open(t, "u", "c", on("0-1", 0, 1)) == "" {
			t.Error("created again it has no file")
		}
		b.Keep(map[string]bool{"u": true})
		if got := b.disk.has(t, "u/c"); !strings.HasSuffix(got, ": 0-1 on 0-1, node") {
			t.Errorf("created again it is %q", got)
		}
		b.Keep(nil)
		b.want(t, "u/c", "")
	})
}

// Only containers that ask get a notice, and only valid names become a path. A mount of the
// container at MountPoint stays.
func TestWhoAsks(t *testing.T) {
	cases := []struct {
		annotation, uid, container string
		want                       bool
	}{
		{"*", "u", "mounts", false},
		{"*", "0a-b", "web", true},
		{"web", "u", "web", true},
		{" log , web ", "u", "web", true},
		{"log", "u", "web", false},
		{"", "u", "web", false},
		{"", "u", "", false},
		{"we", "u", "web", false},
		{"*", "..", "web", false},
		{"*", "u", "../../etc", false},
		{"*", "u/v", "web", false},
		{"*", "", "web", false},
		{"*", "u", "", false},
		{"*", strings.Repeat("u", 64), "web", false},
		{"*", "u", "web.new", false},
		{"*", "u\x00", "web", false},
	}
	for _, c := range cases {
		in(t, func(t *testing.T, b *bench) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			asking := notice.Container{UID: c.uid, Name: c.container, Annotations: map[string]string{notice.Annotation: c.annotation}}
			if c.container == "mounts" {
				asking.Mounts = []string{"/data", "/run/paddock-notice/"}
			}
			got := b.Open(ctx, asking, on("1", 0))
			if (got != "") != c.want || time.Since(begin) != 0 {
				t.Errorf("%+v: mounted from %q after %v", c, got, time.Since(begin))
			}
		})
	}
}

// A disk that stalls delays a creation by the time limit of its notice, and nothing else. The file
// is written afterwards.
func TestStall(t *testing.T) {
	in(t, func(t *testing.T, b *bench) {
		b.open(t, "u", "c", on("2", 0))
		thaw := make(chan struct{})
		b.disk.set(func(d *disk) { d.stall = thaw })
		begin := time.Now()
		b.Changed("u", "c", on("3", 0))
		b.Changed("u", "c", on("4", 0))
		b.Keep(map[string]bool{"u": true, "v": true})
		if time.Since(begin) != 0 {
			t.Error("a change waited for the disk")
		}
		if got := b.open(t, "v", "c", on("5", 0)); got != "" || time.Since(begin) != 200*time.Millisecond {
			t.Errorf("mounted from %q after %v", got, time.Since(begin))
		}
		pass(time.Hour)
		b.disk.set(func(d *disk) { d.stall = nil })
		close(thaw)
		b.want(t, "u/c", "2: 4 on 0, none")
		b.want(t, "v/c", "1: 5 on 0, none")
		if got := b.open(t, "v", "c", on("5", 0)); got == "" {
			t.Error("created again it has no notice")
		}
	})
}

// An error of a full disk is logged once, and the write is repeated.
func TestFull(t *testing.T) {
	in(t, func(t *testing.T, b *bench) {
		b.open(t, "u", "c", on("2", 0))
		b.disk.set(func(d *disk) { d.broken = errors.New("no space left on device") })
		b.Changed("u", "c", on("3", 0))
		pass(time.Minute)
		synctest.Wait()
		if n := strings.Count(b.log.String(), "no space left"); n != 1 {
			t.Errorf("reported %d times: %s", n, b.log)
		}
		b.disk.set(func(d *disk) { d.broken = nil })
		pass(notice.Retry)
		b.want(t, "u/c", "2: 3 on 0, none")
	})
}

// After a restart the revision continues, only files that differ are written, and files of pods
// that are gone are removed.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{files: map[string]string{}}
		b := start(t, d)
		for _, uid := range []string{"a", "b", "c", "d"} {
			b.open(t, uid, "x", on("2", 0))
			b.Changed(uid, "x", on("3", 0))
			synctest.Wait()
		}
		b.Pending("b", "x", notice.Change{CPUs: on("4").CPUs, Mems: mask.Of(0)})
		synctest.Wait()
		b.end()
		d.set(func(d *disk) {
			d.files["c/x"] = `{"apiVersion": "another"}`
			d.files["e/x"] = "" // The process ended before it wrote.
			d.files["f/x.y"] = "{}"
		})
		before := d.writes
		thaw := make(chan struct{})
		d.set(func(d *disk) { d.stall = thaw })
		b = start(t, d)
		b.Changed("a", "x", on("3", 0)) // It is not known yet that the file exists.
		b.Changed("d", "x", on("5", 0))
		b.Changed("c", "x", on("6", 0))
		b.Changed("z", "x", on("6", 0))
		d.set(func(d *disk) { d.stall = nil })
		close(thaw)
		b.want(t, "a/x", "2: 3 on 0, none")
		b.want(t, "b/x", "4: 3 on 0, none")
		b.want(t, "d/x", "3: 5 on 0, none")
		if d.writes != before+2 {
			t.Errorf("%d writes, want those of b and d", d.writes-before)
		}
		b.open(t, "c", "x", on("6", 0))
		b.want(t, "c/x", "1: 6 on 0, none")
		b.Keep(map[string]bool{"a": true, "c": true})
		b.want(t, "", "a/x c/x")
		b.end()
	})
}

// step is one event of a history. A change concerns the container c of a pod.
type step struct {
	what, uid string
	cpu       int
}

// Whatever happens, and wherever the process ends in between: once the disk works, each container
// that was created has its last setting, pods that are gone have no file, and no revision has two
// different contents.
func TestHistories(t *testing.T) {
	events := []string{"open", "change", "gone", "fail", "mend", "crash"}
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{rapid.SampledFrom(events).Draw(r, "what"), rapid.SampledFrom([]string{"u", "v", "w"}).Draw(r, "pod"), rapid.IntRange(0, 3).Draw(r, "cpu")}
		}), 1, 30).Draw(r, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, disk: &disk{files: map[string]string{}}, want: map[string]string{}, seen: map[string]string{}}
			h.bench = start(t, h.disk)
			for _, s := range steps {
				h.play(s)
			}
			wrong = h.close()
		})
		for _, w := range wrong {
			r.Error(w)
		}
	})
}

// history is a writer, and the expectation of a simple model: the line of each file without the
// revision, and the content of each revision that was seen.
type history struct {
	*bench
	t          *testing.T
	disk       *disk
	want, seen map[string]string
	wrong      []string
}

func (h *history) play(s step) {
	name, has := s.uid+"/c", on(fmt.Sprint(s.cpu), 0)
	line := has.CPUs.String() + " on 0, none"
	switch s.what {
	case "open":
		if h.open(h.t, s.uid, "c", has) != "" {
			h.want[name] = line
		} else if h.want[name] != "" {
			h.want[name] = line // It runs without a mount, and its file is still kept up to date.
		}
	case "change":
		h.Changed(s.uid, "c", has)
		if h.want[name] != "" {
			h.want[name] = line
		}
	case "gone":
		h.Keep(map[string]bool{"u": s.uid != "u", "v": s.uid != "v", "w": s.uid != "w"})
		delete(h.want, name)
		maps.DeleteFunc(h.seen, func(seen, _ string) bool { return strings.HasPrefix(seen, s.uid) })
	case "fail":
		h.disk.set(func(d *disk) { d.broken = errors.New("full") })
	case "mend":
		h.mend()
	case "crash": // The next process reads what runs.
		h.end()
		h.disk.set(func(d *disk) { d.broken = nil })
		h.bench = start(h.t, h.disk)
		for name, line := range h.want {
			cpus, _, _ := strings.Cut(line, " ")
			h.Changed(strings.TrimSuffix(name, "/c"), "c", on(cpus, 0))
		}
	}
}

// mend makes the disk work again, and checks all files.
func (h *history) mend() {
	h.disk.set(func(d *disk) { d.broken = nil })
	pass(notice.Retry)
	synctest.Wait()
	for name, line := range h.want {
		revision, rest, _ := strings.Cut(h.disk.has(h.t, name), ": ")
		if rest != line {
			h.wrong = append(h.wrong, fmt.Sprintf("%s is %q, want %q", name, rest, line))
		}
		if before, there := h.seen[name+revision]; there && before != rest {
			h.wrong = append(h.wrong, fmt.Sprintf("revision %s of %s was %q and is %q", revision, name, before, rest))
		}
		h.seen[name+revision] = rest
	}
}

func (h *history) close() []string {
	live := map[string]bool{}
	for name := range h.want {
		live[strings.TrimSuffix(name, "/c")] = true
	}
	synctest.Wait()
	h.Keep(live)
	h.mend()
	if len(h.disk.files) != len(h.want) {
		h.wrong = append(h.wrong, fmt.Sprintf("%d files, want %d", len(h.disk.files), len(h.want)))
	}
	h.end()
	return h.wrong
}
