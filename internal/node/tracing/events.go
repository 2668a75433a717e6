package tracing

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// reader makes causes of the text of trace_pipe.
type reader struct {
	cpus   cpuset.Set
	causes *noise.Causes
	events int

	buffer []byte
	used   int
}

// longest is the longest line that is kept until its rest is read, in bytes.
const longest = 64 << 10

func (r *reader) full() bool { return r.events >= mostEvents }

// room returns where to read to.
func (r *reader) room() []byte {
	if r.buffer == nil {
		r.buffer = make([]byte, 2*longest)
	}
	if r.used > longest { // No line is that long.
		r.used = 0
	}
	return r.buffer[r.used:]
}

// take takes in that many bytes more. The last line may not be complete.
func (r *reader) take(n int) {
	data := r.buffer[:r.used+n]
	for !r.full() {
		line, rest, complete := bytes.Cut(data, []byte("\n"))
		if !complete {
			break
		}
		r.line(string(line))
		data = rest
	}
	r.used = copy(r.buffer, data)
}

// pattern matches an event: the task that ran, its CPU, the context, the time, the name and the
// fields of the event. Names of tasks can have every character.
var pattern = regexp.MustCompile(`^\s*(.+)-(\d+)\s+\[(\d+)\]\s+(\S+)\s+[\d.]+: (\w+): (.*)$`)

// line takes in one event. Other lines are ignored: those about lost events, and comments.
func (r *reader) line(text string) {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return
	}
	r.events++
	pid, noPID := strconv.Atoi(found[2])
	cpu, noCPU := strconv.Atoi(found[3])
	if noPID != nil || noCPU != nil {
		return
	}
	fields := found[6]
	switch found[5] {
	case "sched_waking":
		task, noTask := strconv.Atoi(valueOf(fields, "pid"))
		target, noTarget := strconv.Atoi(valueOf(fields, "target_cpu"))
		if noTask == nil && noTarget == nil {
			r.causes.Task(task, target, waker(found[1], found[4], cpu))
		}
	case "workqueue_execute_start":
		_, function, is := strings.Cut(fields, "function ")
		if is {
			r.causes.Task(pid, cpu, "work "+function)
		}
	case "timer_expire_entry":
		r.causes.Row("TIMER", cpu, valueOf(fields, "function"))
	case "hrtimer_expire_entry":
		r.causes.Row("LOC", cpu, valueOf(fields, "function"))
	case "ipi_send_cpu", "ipi_send_cpumask":
		r.sent(fields, found[1], found[4], cpu)
	}
}

// sent takes in an interrupt that a CPU sent to others. Without a function to call, it asks the
// scheduler to look again.
func (r *reader) sent(fields, task, context string, from int) {
	to, err := cpuset.Parse(valueOf(fields, "cpumask"))
	if one, is := strconv.Atoi(valueOf(fields, "cpu")); is == nil && one >= 0 && one <= cpuset.MaxID {
		to, err = cpuset.Of(one), nil
	}
	if err != nil {
		return
	}
	id := "CAL"
	if callback := valueOf(fields, "callback"); strings.Trim(callback, "0x") == "" {
		id = "RES"
	}
	site, _, _ := strings.Cut(valueOf(fields, "callsite"), "+")
	if strings.Contains(site, "tlb") {
		id = "TLB"
	}
	for cpu := range to.Intersection(r.cpus).All() {
		r.causes.Row(id, cpu, waker(task, context, from)+" in "+site)
	}
}

// waker names who ran when an event occurred. In an interrupt, the task that ran did not cause it.
func waker(task, context string, cpu int) string {
	// The third character shows an interrupt: h and H are hard ones, s is a softirq, Z and z are
	// non-maskable ones (trace/ftrace.rst, latency trace format).
	if len(context) > 2 {
		switch context[2] {
		case 'h', 'H':
			return "an interrupt on CPU " + strconv.Itoa(cpu)
		case 's':
			return "a softirq on CPU " + strconv.Itoa(cpu)
		case 'Z', 'z':
			return "an NMI on CPU " + strconv.Itoa(cpu)
		}
	}
	return task + " on CPU " + strconv.Itoa(cpu)
}

// valueOf returns the value of a field: "name=value".
func valueOf(fields, name string) string {
	_, rest, found := strings.Cut(" "+fields, " "+name+"=")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, " ")
	return value
}
