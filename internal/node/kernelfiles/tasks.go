package kernelfiles

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

const (
	// mostTasks is how many tasks one look reads.
	mostTasks = 100_000
	// tick is the unit of CPU time in /proc/PID/stat. It is the same on every Linux.
	tick = 10 * time.Millisecond
	// kernelThread is PF_KTHREAD in the flags of /proc/PID/stat (include/linux/sched.h).
	kernelThread = 0x00200000
)

// Looker looks at all tasks, several times. It keeps buffers, so it is for one goroutine.
type Looker struct {
	FS FS
	// Watched are the CPUs on which more is read of a task. Self is the process that is left out:
	// that of the reader.
	Watched cpuset.Set
	Self    int

	buffer []byte
	// before has the tasks of the look before, by ID, and seen those of this look.
	before map[int]noise.Seen
	seen   []noise.Seen
	// kernel is set when a kernel thread was seen, and cut when there were too many tasks.
	kernel, cut bool
	// failed is why the tasks of /proc could not be listed.
	failed error
}

// Look returns all tasks. The next look overwrites the result.
//
// A task that has not run since the look before is as it was, and only its schedstat is read. Most
// tasks of a node sleep.
func (l *Looker) Look() []noise.Seen {
	before := make(map[int]noise.Seen, len(l.seen))
	for _, s := range l.seen {
		before[s.ID] = s
	}
	l.before, l.seen = before, l.seen[:0]
	processes, err := names(l.FS.path("proc"))
	if l.failed = err; err != nil {
		return nil
	}
	for _, name := range processes {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == l.Self {
			continue
		}
		dir := l.FS.path("proc/" + name + "/task")
		threads, err := names(dir)
		if err != nil {
			continue // The process has ended.
		}
		for _, thread := range threads {
			if len(l.seen) >= mostTasks {
				l.cut = true
				break
			}
			l.task(pid, dir+"/"+thread, thread)
		}
	}
	return l.seen
}

// task reads one task, if it has not ended.
func (l *Looker) task(pid int, dir, thread string) {
	var used noise.Seen
	var err error
	if l.buffer, err = readInto(l.buffer, dir+"/schedstat"); err == nil {
		parseSchedstat(l.buffer, &used)
	}
	before, known := l.before[int(number([]byte(thread)))]
	if known && used.HasRuns && before.HasRuns && used.Runs == before.Runs && used.Time == before.Time && before.Process == pid {
		l.seen = append(l.seen, before)
		return
	}
	s := noise.Seen{Process: pid}
	if l.buffer, err = readInto(l.buffer, dir+"/stat"); err != nil || !parseStat(l.buffer, &s) {
		return
	}
	l.kernel = l.kernel || s.Kernel
	if used.HasRuns {
		s.Time, s.Runs, s.HasRuns = used.Time, used.Runs, true
	}
	if !l.Watched.Has(s.CPU) {
		l.seen = append(l.seen, s)
		return
	}
	if l.buffer, err = readInto(l.buffer, dir+"/status"); err == nil {
		parseStatus(l.buffer, &s)
	}
	if s.Cgroup = before.Cgroup; !known || before.TaskID != s.TaskID || s.Cgroup == "" {
		if l.buffer, err = readInto(l.buffer, dir+"/cgroup"); err == nil {
			s.Cgroup = cgroupOf(l.buffer)
		}
	}
	l.seen = append(l.seen, s)
}

// names returns the names in a directory, unsorted.
func names(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Readdirnames(-1)
}

// parseStat reads /proc/PID/task/TID/stat. The name of a task can have every character, also
// parentheses.
func parseStat(data []byte, s *noise.Seen) bool {
	begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if begin < 1 || end < begin {
		return false
	}
	id, err := strconv.Atoi(string(bytes.TrimSpace(data[:begin])))
	if err != nil {
		return false
	}
	s.ID, s.Name = id, string(data[begin+1:end])
	var used uint64
	at := 2 // The state is the third field.
	for word := range bytes.FieldsSeq(data[end+1:]) {
		at++
		switch at {
		case 9:
			s.Kernel = number(word)&kernelThread != 0
		case 14, 15: // In user mode, and in the kernel.
			used += number(word)
		case 22:
			s.Start = number(word)
		case 39:
			s.CPU = int(min(number(word), cpuset.MaxID))
			s.Time = time.Duration(min(used, 1<<38)) * tick
			return true
		}
	}
	return false
}

// number reads an unsigned number, or 0.
func number(word []byte) uint64 {
	var n uint64
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + uint64(c-'0')
	}
	return n
}

// parseSchedstat reads /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst): the
// time on a CPU, the time of waiting for one, and how often it ran.
func parseSchedstat(data []byte, s *noise.Seen) {
	at := 0
	for word := range bytes.FieldsSeq(data) {
		switch at {
		case 0:
			s.Time = time.Duration(min(number(word), 1<<62))
		case 2:
			s.Runs, s.HasRuns = number(word), true
		}
		at++
	}
}

// parseStatus reads the fields of /proc/PID/task/TID/status that stat does not have.
func parseStatus(data []byte, s *noise.Seen) {
	for line := range bytes.Lines(data) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		switch string(key) {
		case "Cpus_allowed_list":
			if set, err := cpuset.Parse(string(bytes.TrimSpace(value))); err == nil {
				s.Allowed = set
			}
		case "nonvoluntary_ctxt_switches":
			s.Involuntary, s.HasSwitches = number(bytes.TrimSpace(value)), true
		}
	}
}

// cgroupOf returns the path in /proc/PID/cgroup: that of the cpuset controller of cgroup v1, or
// that of v2 (cgroups(7)).
func cgroupOf(data []byte) string {
	unified := ""
	for line := range strings.Lines(string(data)) {
		words := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		switch {
		case len(words) < 3:
		case slices.Contains(strings.Split(words[1], ","), "cpuset"):
			return words[2]
		case words[1] == "":
			unified = words[2]
		}
	}
	return unified
}
