package kernelfiles

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

// tree writes the files of an archive into a directory.
func tree(t testing.TB, file string) FS {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range archive.Files {
		place(t, filepath.Join(root, f.Name), string(f.Data))
	}
	return FS{Root: root}
}

func place(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // It is a test.
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// measure measures for 2 s by a clock that advances with each look.
func measure(ctx context.Context, files FS, containers []noise.Container) *noise.Measurement {
	now := time.Duration(0)
	w := Watch{
		FS: files, Containers: containers, For: 2 * time.Second, Self: 800,
		Since: func() time.Duration { return now },
		After: func(d time.Duration) <-chan time.Time {
			now += d
			c := make(chan time.Time, 1)
			c <- time.Time{}
			return c
		},
	}
	return w.Measure(ctx)
}

// TestRecordedTrees compares what is read of the recorded machines in testdata with the files
// beside them.
func TestRecordedTrees(t *testing.T) {
	for name, cpus := range map[string]string{"virtual-machine": "1", "server": "2-3"} {
		files := tree(t, "testdata/"+name+".txtar")
		all, err := files.Cgroups()
		if err != nil {
			t.Fatal(err)
		}
		online, err := files.Online()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, c := range all {
			fmt.Fprintf(&out, "cgroup %s\n  pod %s container %s CPUs %s\n", c.Path, c.UID, c.ID, c.CPUs)
		}
		exclusive := Exclusive(all, online)
		if len(exclusive) != 1 || exclusive[0].CPUs.String() != cpus {
			t.Fatalf("%s: exclusive: %v", name, exclusive)
		}
		looker := &Looker{FS: files, Watched: exclusive[0].CPUs, Self: 800}
		seen := slices.Clone(looker.Look())
		slices.SortFunc(seen, func(a, b noise.Seen) int { return cmp.Compare(a.ID, b.ID) })
		for _, s := range seen {
			fmt.Fprintf(&out, "task %d %q of %d, kernel %v, started %d, CPU %d of %s, %v, %d runs (%v), %d involuntary (%v), cgroup %q\n",
				s.ID, s.Name, s.Process, s.Kernel, s.Start, s.CPU, s.Allowed, s.Time, s.Runs, s.HasRuns, s.Involuntary, s.HasSwitches, s.Cgroup)
		}
		m := measure(t.Context(), files, []noise.Container{{Pod: "default/web", Name: "app", CPUs: exclusive[0].CPUs, Cgroup: exclusive[0].Path}})
		for _, rows := range [][]noise.Row{m.After.Interrupts, m.After.Softirqs} {
			for _, r := range rows {
				fmt.Fprintf(&out, "row %s %q %d\n", r.ID, r.Name, r.Counts)
			}
		}
		fmt.Fprintf(&out, "counters %+v, node %d (%v)\n", m.After.Containers[0], m.After.Migrated, m.After.HasMigrated)
		r := noise.Compare(m)
		for _, s := range r.Containers[0].Settings {
			fmt.Fprintf(&out, "setting %s: %s, allows noise %v\n", s.Name, s.Value, s.Allows)
		}
		for _, n := range r.NotSeen {
			fmt.Fprintf(&out, "not seen: %s, because %s\n", n.What, n.Why)
		}
		golden.Compare(t, "testdata/"+name+".txt", strings.ReplaceAll(out.String(), files.Root, "ROOT"))
	}
}

// TestNothingCanBeRead checks that a machine without any of the files gives a report that names
// them.
func TestNothingCanBeRead(t *testing.T) {
	files := FS{Root: t.TempDir()}
	if _, err := files.Online(); err == nil {
		t.Error("no CPU is online, and this is no error")
	}
	r := noise.Compare(measure(t.Context(), files, []noise.Container{{Pod: "default/web", Name: "app", CPUs: cpuset.Of(1), Cgroup: "/gone"}}))
	if len(r.Containers) != 1 || len(r.Containers[0].Sources) != 0 || r.Containers[0].OfflineCPUs != "" {
		t.Errorf("%+v", r.Containers)
	}
	var what []string
	for _, n := range r.NotSeen {
		if n.Why == "" {
			t.Errorf("%s: no reason", n.What)
		}
		what = append(what, n.What)
	}
	for _, want := range []string{"interrupts", "softirqs", "tasks", "the affinity of interrupts", "throttling of default/web app", "the cache class", "CPUs of isolated partitions"} {
		if !slices.Contains(what, want) {
			t.Errorf("%q is not among what was not seen: %q", want, what)
		}
	}
}

// TestDamagedFiles checks that files with other content than the kernel's are no content, and that
// nothing else is lost.
func TestDamagedFiles(t *testing.T) {
	files := tree(t, "testdata/server.txtar")
	for _, name := range []string{"proc/interrupts", "proc/irq/default_smp_affinity", "sys/devices/system/cpu/nohz_full", "sys/kernel/irq/40/per_cpu_count", "sys/devices/virtual/workqueue/cpumask"} {
		place(t, filepath.Join(files.Root, name), "\x00 what is this?\n\n::: -5")
	}
	place(t, filepath.Join(files.Root, "proc/5/task/5/stat"), "5 (x")
	place(t, filepath.Join(files.Root, "proc/6/task/6/stat"), strings.Repeat("9", 10000))
	m := measure(t.Context(), files, []noise.Container{{CPUs: cpuset.Of(2, 3)}})
	if len(m.After.Interrupts) != 0 || len(m.After.Softirqs) != 1 || m.Settings.NoHZFull.Known || m.Settings.Workqueue.Known || !m.Settings.Partitions.Known {
		t.Errorf("%+v, %+v", m.After, m.Settings)
	}
	if !slices.ContainsFunc(m.NotSeen, func(n noise.NotSeen) bool {
		return n.What == "interrupts" && strings.Contains(n.Why, "expected a line of CPU0")
	}) {
		t.Errorf("not seen: %q", m.NotSeen)
	}
}

// TestMeasureEndsEarly checks that what was measured until a signal is a measurement.
func TestMeasureEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := measure(ctx, tree(t, "testdata/server.txtar"), []noise.Container{{CPUs: cpuset.Of(2)}})
	if m.Activity.Looks != 2 || m.After == nil {
		t.Errorf("%d looks, %v", m.Activity.Looks, m.After)
	}
}

// TestTasksComeAndGo checks that tasks that begin and end between looks are counted while they are
// there.
func TestTasksComeAndGo(t *testing.T) {
	root := t.TempDir()
	task := func(pid int, nanoseconds string) {
		dir := filepath.Join(root, fmt.Sprintf("proc/%d/task/%d", pid, pid))
		place(t, filepath.Join(dir, "stat"), fmt.Sprintf("%d (t) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0", pid, pid))
		place(t, filepath.Join(dir, "schedstat"), nanoseconds+" 0 1")
	}
	l := &Looker{FS: FS{Root: root}, Watched: cpuset.Of(1)}
	task(10, "1000")
	if seen := l.Look(); len(seen) != 1 || seen[0].Time != 1000 || !seen[0].HasRuns {
		t.Errorf("%+v", seen)
	}
	task(11, "5")
	if err := os.RemoveAll(filepath.Join(root, "proc/10")); err != nil {
		t.Fatal(err)
	}
	if seen := l.Look(); len(seen) != 1 || seen[0].ID != 11 {
		t.Errorf("%+v", seen)
	}
	task(11, "9")
	if seen := l.Look(); len(seen) != 1 || seen[0].Time != 9 || len(l.before) != 1 {
		t.Errorf("%+v, and %d are kept", seen, len(l.before))
	}
}

func TestDevice(t *testing.T) {
	for about, want := range map[string]string{
		"IO-APIC   5-edge      ACPI:Ged":                    "ACPI:Ged",
		"PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0": "virtio1-req.0",
		"IR-PCI-MSI 524288-edge      eth0-TxRx-0, other":    "eth0-TxRx-0, other",
		"GICv3  30 Level     arch_timer":                    "arch_timer",
		"ITS-MSI 16384 Edge      nvme0q0":                   "nvme0q0",
		"PCI-MSIX-0000:00:02.0   1-edge":                    "PCI-MSIX-0000:00:02.0 1-edge",
		"":                                                  "",
	} {
		if got := device(about); got != want {
			t.Errorf("device(%q) = %q, want %q", about, got, want)
		}
	}
}

func TestMask(t *testing.T) {
	for words, want := range map[string]string{"f": "0-3", "00000001,00000003": "0-1,32", "0": ""} {
		if got, err := parseMask(words); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v, want %s", words, got, err, want)
		}
	}
	for _, words := range []string{"", "x", "f,", "100000000", strings.Repeat("1,", 5000) + "1"} {
		if got, err := parseMask(words); err == nil {
			t.Errorf("%.20q: %s", words, got)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add("  CPU0 CPU3\n 1: 2 3 a-edge b\nERR: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows := 0
		err := Table(strings.NewReader(text), []int{0, 3}, func(_, _ []byte, counts []uint64) {
			if rows++; len(counts) != 2 {
				t.Errorf("%d counts", len(counts))
			}
		})
		if err == nil && text == "" {
			t.Error("an empty file is no error")
		}
		_ = rows
	})
}

func FuzzTask(f *testing.F) {
	f.Add([]byte("1 (a) b) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s noise.Seen
		if parseStat(data, &s) && (s.CPU < 0 || s.Time < 0) {
			t.Errorf("%+v", s)
		}
		parseSchedstat(data, &s)
		parseStatus(data, &s)
		if s.Time < 0 {
			t.Errorf("%+v", s)
		}
		_ = cgroupOf(data)
	})
}

// BenchmarkLook looks at tasks of a directory in memory or on disk. Files of the kernel take
// longer: docs/quiet-cpus.md has what was measured with them.
func BenchmarkLook(b *testing.B) {
	root := b.TempDir()
	for pid := 1; pid <= 1000; pid++ {
		dir := filepath.Join(root, fmt.Sprintf("proc/%d/task/%d", pid, pid))
		place(b, filepath.Join(dir, "stat"), fmt.Sprintf("%d (t) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0", pid, pid))
		place(b, filepath.Join(dir, "schedstat"), "5 0 1")
	}
	l := &Looker{FS: FS{Root: root}, Watched: cpuset.Of(2)}
	b.ReportAllocs()
	for b.Loop() {
		if len(l.Look()) != 1000 {
			b.Fatal("tasks are missing")
		}
	}
}
