package tracing

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded are lines of trace_pipe as a kernel of version 6.18 writes them.
const recorded = `          <idle>-0       [000] dNh3.  1234.567890: sched_waking: comm=app pid=700 prio=120 target_cpu=002
     my - task-4711    [001] d..3.  1234.567891: sched_waking: comm=app pid=700 prio=120 target_cpu=002
     my - task-4711    [001] d.s3.  1234.567892: sched_waking: comm=app pid=700 prio=120 target_cpu=003
  kworker/2:1-77      [002] .....  1234.567893: workqueue_execute_start: work struct 00000000abc: function vmstat_update
          <idle>-0       [002] d.s1.  1234.567894: timer_expire_entry: timer=000 function=delayed_work_timer_fn now=4295 baseclk=4295
             app-700     [002] d.h1.  1234.567895: hrtimer_expire_entry: hrtimer=000 function=tick_nohz_handler now=12
         kubelet-50      [000] d..2.  1234.567896: ipi_send_cpu: cpu=2 callsite=ttwu_queue_wakelist+0x12/0x20 callback=0x0
         kubelet-50      [000] d..2.  1234.567897: ipi_send_cpumask: cpumask=0,2-3 callsite=on_each_cpu_cond_mask+0x1/0x2 callback=generic_smp_call_function_single_interrupt+0x0/0x10
         kubelet-50      [000] d..2.  1234.567898: ipi_send_cpumask: cpumask=2 callsite=native_flush_tlb_multi+0x1/0x2 callback=generic_smp_call_function_single_interrupt+0x0/0x10
CPU:1 [LOST 1234 EVENTS]
# a comment
`

// report returns the causes as a report shows them: of a task and rows on CPU 2.
func report(causes *noise.Causes) map[string][]string {
	container := noise.Container{Pod: "default/web", Name: "app", CPUs: cpuset.Of(2)}
	row := func(id string, n uint64) noise.Row { return noise.Row{ID: id, Counts: []uint64{n}} }
	activity := &noise.Activity{Watched: container.CPUs}
	activity.Add(nil)
	for _, id := range []int{77, 700} {
		activity.Add([]noise.Seen{{TaskID: noise.TaskID{ID: id}, Name: "t", Kernel: id == 77, CPU: 2, Time: time.Second}})
	}
	r := noise.Compare(&noise.Measurement{
		Containers: []noise.Container{container}, Activity: activity, Causes: causes,
		Settings: &noise.Settings{Partition: []string{""}, Cache: []string{""}},
		Before:   &noise.Snapshot{CPUs: []int{2}, Containers: make([]noise.Counters, 1), Interrupts: []noise.Row{row("LOC", 0), row("CAL", 0), row("RES", 0), row("TLB", 0)}, Softirqs: []noise.Row{row("TIMER", 0)}},
		After:    &noise.Snapshot{At: time.Second, CPUs: []int{2}, Containers: make([]noise.Counters, 1), Interrupts: []noise.Row{row("LOC", 1), row("CAL", 1), row("RES", 1), row("TLB", 1)}, Softirqs: []noise.Row{row("TIMER", 1)}},
	})
	found := map[string][]string{}
	for _, s := range r.Containers[0].Sources {
		found[s.ID] = s.WokenBy
	}
	return found
}

var want = map[string][]string{
	"700":   {"an interrupt on CPU 0 (1 time)", "my - task on CPU 1 (1 time)"},
	"77":    {"work vmstat_update (1 time)"},
	"TIMER": {"delayed_work_timer_fn (1 time)"},
	"LOC":   {"tick_nohz_handler (1 time)"},
	"RES":   {"kubelet on CPU 0 in ttwu_queue_wakelist (1 time)"},
	"CAL":   {"kubelet on CPU 0 in on_each_cpu_cond_mask (1 time)"},
	"TLB":   {"kubelet on CPU 0 in native_flush_tlb_multi (1 time)"},
}

func compare(t *testing.T, causes *noise.Causes) {
	t.Helper()
	got := report(causes)
	for id, wanted := range want {
		if !slices.Equal(got[id], wanted) {
			t.Errorf("%s: %q, want %q", id, got[id], wanted)
		}
	}
}

// TestReader checks the causes of recorded events, in pieces of every size.
func TestReader(t *testing.T) {
	for _, size := range []int{1, 7, 100, 1 << 20} {
		r := reader{cpus: cpuset.Of(2, 3), causes: &noise.Causes{}}
		for text := recorded; text != ""; {
			n := copy(r.room(), text[:min(size, len(text))])
			r.take(n)
			text = text[n:]
		}
		compare(t, r.causes)
		if r.events != 9 {
			t.Errorf("%d events", r.events)
		}
	}
}

// instance makes a directory with the files of an instance, without those of an event.
func instance(t *testing.T, without string) string {
	t.Helper()
	dir := t.TempDir()
	names := []string{"buffer_size_kb", "tracing_on", "trace_pipe", "per_cpu/cpu0/stats"}
	for _, e := range events {
		if e.name != without {
			names = append(names, "events/"+e.name+"/filter", "events/"+e.name+"/enable")
		}
	}
	for _, name := range names {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// TestRecording checks what is written, what is read, and that every event is off at the end.
func TestRecording(t *testing.T) {
	dir := instance(t, "ipi/ipi_send_cpu")
	for name, text := range map[string]string{"trace_pipe": recorded, "per_cpu/cpu0/stats": "entries: 1\noverrun: 12\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cpus := cpuset.Of(2, 3, 8)
	r, err := start(dir, cpus, time.After)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir, "events/sched/sched_waking/filter"); got != "(target_cpu >= 2 && target_cpu <= 3) || target_cpu == 8" {
		t.Errorf("the filter is %q", got)
	}
	if content(t, dir, "events/sched/sched_waking/enable") != "1" || content(t, dir, "tracing_on") != "1" {
		t.Error("the events are not on")
	}
	causes, missing, err := r.End()
	if err == nil || !strings.Contains(err.Error(), "rmdir "+dir) { // The kernel's directories can be removed with their files.
		t.Errorf("the error is %v", err)
	}
	for _, e := range events {
		if e.name != "ipi/ipi_send_cpu" && content(t, dir, "events/"+e.name+"/enable")[:1] != "0" {
			t.Errorf("%s is on", e.name)
		}
	}
	compare(t, causes)
	if len(missing) != 2 || missing[0].What != "who sent an interrupt to one CPU" || missing[1].What != "who caused 12 events" {
		t.Errorf("missing: %q", missing)
	}
}

// TestBegin checks the errors where tracefs is missing or has no events, and that instances of
// processes that have ended are removed.
func TestBegin(t *testing.T) {
	root := t.TempDir()
	if _, err := Begin(root, 1, cpuset.Of(1), time.After); !errors.Is(err, errNoTracefs) {
		t.Errorf("the error is %v", err)
	}
	instances := filepath.Join(root, "sys/kernel/tracing/instances")
	if err := os.MkdirAll(instances, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(root, 1, cpuset.Of(1), time.After); err == nil {
		t.Error("an empty instance is recorded")
	}
	for _, name := range []string{"paddock-noise-5", "paddock-noise-6", "of-others", "paddock-noise-x"} {
		if err := os.Mkdir(filepath.Join(instances, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep(instances, func(pid int) bool { return pid == 6 })
	entries, err := os.ReadDir(instances)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, []string{"of-others", "paddock-noise-6", "paddock-noise-x"}) {
		t.Errorf("left are %q, %v", left, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(recorded))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader{cpus: cpuset.Of(2), causes: &noise.Causes{}}
		for len(data) > 0 {
			n := copy(r.room(), data)
			if n == 0 {
				t.Fatal("there is no room")
			}
			r.take(n)
			data = data[n:]
		}
	})
}
