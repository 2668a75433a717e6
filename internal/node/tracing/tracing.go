// Package tracing records in tracefs who woke tasks on CPUs, which work and timers ran there, and
// who sent them interrupts (Documentation/trace/ftrace.rst, trace/events.rst).
//
// It makes an instance of its own, so that it disturbs no other user of tracefs. Its events have
// filters, so that the kernel records only what concerns the CPUs. End removes the instance, and
// Begin removes those of programs that were killed before they could do so. Everything is best
// effort: an event or a filter that the kernel does not have is reported as not seen.
package tracing

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

const (
	// bufferKiB is the size of the buffer of each CPU of the machine, in KiB.
	bufferKiB = "128"
	// readEvery is the time between two reads. At 128 KiB and about 100 bytes for an event, a CPU
	// can record 13,000 events a second without a loss.
	readEvery = 100 * time.Millisecond
	// mostEvents ends the recording, so that a storm of events does not keep a CPU busy with
	// reading them.
	mostEvents = 1_000_000
	// prefix begins the names of all instances.
	prefix = "paddock-noise-"
)

// Recording is a recording in progress. End must be called.
type Recording struct {
	dir     string
	pipe    int
	after   func(time.Duration) <-chan time.Time
	stop    chan struct{}
	done    sync.WaitGroup
	missing []noise.NotSeen

	reader reader
}

// errNoTracefs is the error where tracefs is not mounted.
var errNoTracefs = errors.New("tracefs is not mounted at /sys/kernel/tracing: as root, mount -t tracefs tracefs /sys/kernel/tracing")

// Begin begins to record what concerns CPUs. root is the directory that has sys, and process is the
// ID of the caller, which is a part of the name of the instance. after is that of package time.
func Begin(root string, process int, cpus cpuset.Set, after func(time.Duration) <-chan time.Time) (*Recording, error) {
	instances, err := find(root)
	if err != nil {
		return nil, err
	}
	sweep(instances, alive)
	dir := filepath.Join(instances, prefix+strconv.Itoa(process))
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w: run as root", err)
		}
		return nil, err
	}
	r, err := start(dir, cpus, after)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return r, nil
}

// find returns the directory of instances.
func find(root string) (string, error) {
	for _, at := range []string{"sys/kernel/tracing", "sys/kernel/debug/tracing"} {
		dir := filepath.Join(root, at, "instances")
		_, err := os.Stat(dir)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, fs.ErrPermission):
			return "", fmt.Errorf("%w: run as root", err)
		}
	}
	return "", errNoTracefs
}

// alive reports whether a process exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// sweep removes the instances of processes that have ended. What cannot be removed stays.
func sweep(instances string, alive func(pid int) bool) {
	entries, err := os.ReadDir(instances)
	if err != nil {
		return
	}
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), prefix)
		if pid, err := strconv.Atoi(number); is && err == nil && !alive(pid) {
			_ = os.Remove(filepath.Join(instances, e.Name()))
		}
	}
}

// event is an event of the kernel, and the filter for CPUs.
type event struct {
	name, what string
	filter     func(cpuset.Set) string
}

// events are the events that are recorded. "CPU" is where an event occurs.
var events = []event{
	{"sched/sched_waking", "who woke a task", field("target_cpu")},
	{"workqueue/workqueue_execute_start", "which work ran in a kworker", field("CPU")},
	{"timer/timer_expire_entry", "which timers ran", field("CPU")},
	{"timer/hrtimer_expire_entry", "which high-resolution timers ran", field("CPU")},
	{"ipi/ipi_send_cpu", "who sent an interrupt to one CPU", field("cpu")},
	{"ipi/ipi_send_cpumask", "who sent an interrupt to several CPUs", func(cpus cpuset.Set) string { return "cpumask & CPUS{" + cpus.String() + "}" }},
}

// field returns a filter for the ranges of CPUs in which a field must be.
func field(name string) func(cpuset.Set) string {
	return func(cpus cpuset.Set) string {
		var parts []string
		for part := range strings.SplitSeq(cpus.String(), ",") {
			first, last, isRange := strings.Cut(part, "-")
			if isRange {
				parts = append(parts, fmt.Sprintf("(%s >= %s && %s <= %s)", name, first, name, last))
			} else {
				parts = append(parts, name+" == "+first)
			}
		}
		return strings.Join(parts, " || ")
	}
}

// start begins to record in an instance.
func start(dir string, cpus cpuset.Set, after func(time.Duration) <-chan time.Time) (*Recording, error) {
	r := &Recording{dir: dir, after: after, stop: make(chan struct{}), reader: reader{cpus: cpus, causes: &noise.Causes{}}}
	if err := errors.Join(write(filepath.Join(dir, "buffer_size_kb"), bufferKiB), write(filepath.Join(dir, "tracing_on"), "1")); err != nil {
		return nil, err
	}
	recorded := 0
	for _, e := range events {
		at := filepath.Join(dir, "events", e.name)
		err := write(filepath.Join(at, "filter"), e.filter(cpus))
		if err == nil {
			err = write(filepath.Join(at, "enable"), "1")
		}
		if err != nil {
			r.missing = append(r.missing, noise.NotSeen{What: e.what, Why: "this kernel does not have the event " + e.name + ", or not this filter: " + reason(err)})
			continue
		}
		recorded++
	}
	if recorded == 0 {
		return nil, errors.New("tracefs has none of the events that show who woke a task: the kernel is built without CONFIG_EVENT_TRACING, or is locked down")
	}
	pipe, err := syscall.Open(filepath.Join(dir, "trace_pipe"), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		r.disable()
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, "trace_pipe"), Err: err}
	}
	r.pipe = pipe
	r.done.Go(r.run)
	return r, nil
}

// reason returns the error of the kernel without the path.
func reason(err error) string {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// run reads until End is called.
func (r *Recording) run() {
	for {
		select {
		case <-r.stop:
			return
		case <-r.after(readEvery):
			r.drain()
		}
	}
}

// drain reads what was recorded.
func (r *Recording) drain() {
	for !r.reader.full() {
		n, err := syscall.Read(r.pipe, r.reader.room())
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		r.reader.take(n)
	}
	_ = write(filepath.Join(r.dir, "tracing_on"), "0") // Without it, the buffers only overwrite themselves.
}

// disable ends all events, without which the instance cannot be removed.
func (r *Recording) disable() {
	_ = write(filepath.Join(r.dir, "tracing_on"), "0")
	for _, e := range events {
		_ = write(filepath.Join(r.dir, "events", e.name, "enable"), "0")
	}
}

// End ends the recording, removes the instance, and returns what was recorded. An error is that the
// instance could not be removed.
func (r *Recording) End() (*noise.Causes, []noise.NotSeen, error) {
	close(r.stop)
	r.done.Wait()
	_ = write(filepath.Join(r.dir, "tracing_on"), "0")
	r.drain()
	r.disable()
	_ = syscall.Close(r.pipe)
	missing := r.missing
	if r.reader.full() {
		missing = append(missing, noise.NotSeen{What: "who woke a task or sent an interrupt, later on", Why: fmt.Sprintf("the first %d events took part of the time", mostEvents)})
	}
	if n := r.lost(); n > 0 {
		missing = append(missing, noise.NotSeen{What: fmt.Sprintf("who caused %d events", n), Why: "they came faster than they could be read"})
	}
	err := os.Remove(r.dir)
	if err != nil {
		err = fmt.Errorf("%w: remove it by hand: rmdir %s", err, r.dir)
	}
	return r.reader.causes, missing, err
}

// lost returns how many events the buffers lost.
func (r *Recording) lost() (sum int) {
	files, err := filepath.Glob(filepath.Join(r.dir, "per_cpu/cpu*/stats"))
	if err != nil {
		return 0
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			if value, is := bytes.CutPrefix(line, []byte("overrun: ")); is {
				n, _ := strconv.Atoi(string(bytes.TrimSpace(value))) // 0 if it is no number.
				sum += n
			}
		}
	}
	return sum
}

// write writes to an existing file of the kernel.
func write(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:forbidigo // it is the kernel's file: there is nothing to sync or to replace
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(err, file.Close())
}
