package noise

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Measurement is what Compare compares.
type Measurement struct {
	// From is where the containers come from.
	From       string
	Containers []Container
	// Before and After have the counts of the same containers.
	Before, After *Snapshot
	Activity      *Activity
	Settings      *Settings
	// Causes are what tracefs showed. It may be nil.
	Causes *Causes
	// NotSeen is what could not be read.
	NotSeen []NotSeen
}

// Compare returns what happened between the two snapshots.
func Compare(m *Measurement) *Report {
	seconds := (m.After.At - m.Before.At).Seconds()
	r := &Report{Seconds: rounded(seconds), From: m.From, Looks: m.Activity.Looks, Containers: []Noise{}, NotSeen: slices.Clone(m.NotSeen)}
	if r.NotSeen == nil {
		r.NotSeen = []NotSeen{}
	}
	if seconds <= 0 {
		return r
	}
	for i := range m.Containers {
		n := &container{Measurement: m, index: i, Container: &m.Containers[i], seconds: seconds}
		r.Containers = append(r.Containers, n.noise())
	}
	// sort.Slice instead of slices.SortFunc keeps the agent's program small: the latter has 10 KB
	// of code for each type.
	sort.Slice(r.Containers, func(i, k int) bool {
		a, b := &r.Containers[i], &r.Containers[k]
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), strings.Compare(a.Pod+" "+a.UID, b.Pod+" "+b.UID), strings.Compare(a.Container, b.Container)) < 0
	})
	return r
}

// container is the comparison of one container.
type container struct {
	*Measurement
	*Container

	index   int
	seconds float64
	sources []Source
}

func (c *container) noise() Noise {
	n := Noise{Pod: c.Pod, UID: c.UID, Container: c.Name, Cgroup: c.Cgroup, CPUs: c.CPUs.String()}
	counted, interrupts := c.rows()
	if len(c.After.Interrupts) == 0 && len(c.After.Softirqs) == 0 {
		counted = c.CPUs // Nothing is known about them, which NotSeen has.
	}
	if missing := c.CPUs.Difference(counted); !missing.IsEmpty() {
		n.OfflineCPUs = missing.String()
	}
	own, involuntary := c.tasks()
	n.OwnTasks = own
	c.of(involuntary, Source{Class: Involuntary, Name: "its own tasks lost their CPU to another task", Stop: "keep the other tasks of this list away; with more running tasks of its own than CPUs, more CPUs"})
	c.counters()
	cpus := float64(max(1, counted.Len()))
	for _, s := range c.sources {
		if s.Class != Throttled {
			n.Cost += s.Cost
		}
	}
	n.Cost = rounded(n.Cost / cpus)
	n.PerSecond = rounded(float64(interrupts) / c.seconds / cpus)
	sort.Slice(c.sources, func(i, k int) bool {
		a, b := &c.sources[i], &c.sources[k]
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name+a.Cgroup, b.Name+b.Cgroup)) < 0
	})
	n.Sources = c.sources
	if n.Sources == nil {
		n.Sources = []Source{}
	}
	n.Settings = c.Settings.of(c.Container, c.index)
	if n.Settings == nil {
		n.Settings = []Setting{}
	}
	return n
}

// of adds a source whose cost is estimated from its count, if it occurred.
func (c *container) of(count uint64, s Source) {
	if count == 0 {
		return
	}
	s.Count, s.PerSecond, s.Basis = count, rounded(float64(count)/c.seconds), Estimated
	s.Cost = rounded(float64(count) * weight(s.Class, s.ID) / c.seconds)
	c.sources = append(c.sources, s)
}

// rows adds interrupts and softirqs. It returns the CPUs that have counts at both moments, and how
// many interrupts and softirqs there were.
func (c *container) rows() (counted cpuset.Set, interrupts uint64) {
	var known cpuset.Builder
	add := func(before, after []Row, classOf func(Row) Class) {
		index := make(map[string]int, len(before))
		for i := range before {
			index[before[i].ID] = i
		}
		for _, row := range after {
			old := Row{Counts: make([]uint64, len(row.Counts))} // A new interrupt begins at 0.
			if i, is := index[row.ID]; is {
				old = before[i]
			}
			count, on := c.delta(old, row, &known)
			class := classOf(row)
			name := cmp.Or(names[row.ID], row.Name, row.ID)
			interrupts += count
			c.of(count, Source{
				Class: class, ID: row.ID, Name: name, CPUs: on.String(), WokenBy: c.Causes.ofRow(row.ID, c.CPUs), Stop: c.Settings.stopRow(class, row.ID, on),
			})
		}
	}
	add(c.Before.Interrupts, c.After.Interrupts, func(r Row) Class { return ClassOf(r.ID, r.Name) })
	add(c.Before.Softirqs, c.After.Softirqs, func(Row) Class { return Softirq })
	return known.Set(), interrupts
}

// delta returns how often a row occurred on the container's CPUs, and on which of them. It adds the
// CPUs that have counts to known.
func (c *container) delta(before, after Row, known *cpuset.Builder) (sum uint64, on cpuset.Set) {
	var where cpuset.Builder
	for i, cpu := range c.After.CPUs {
		if !c.CPUs.Has(cpu) || i >= len(before.Counts) || i >= len(after.Counts) {
			continue
		}
		from, to := before.Counts[i], after.Counts[i]
		if from == Unknown || to == Unknown {
			continue
		}
		known.Add(cpu)
		if n := Since(from, to); n > 0 {
			sum += n
			where.Add(cpu)
		}
	}
	return sum, where.Set()
}

// Since returns by how much a counter of 32 bits in /proc/interrupts grew. If it fell by less than
// a wrap around explains, it was reset, and what it has is what it counted since then.
func Since(from, to uint64) uint64 {
	if to >= from {
		return to - from
	}
	if wrapped := to + 1<<32 - from; from < 1<<32 && wrapped < 1<<31 {
		return wrapped
	}
	return to
}

// program is what tasks are counted together by: a program that starts another process for each
// request would fill the report otherwise.
type program struct {
	kernel       bool
	name, cgroup string
}

// tasks adds the tasks that ran on the container's CPUs and are not its own. It returns how many of
// its own ran there, and how often these lost their CPU.
func (c *container) tasks() (own int, involuntary uint64) {
	groups := map[program][]*ran{}
	for _, r := range c.Activity.ran {
		if _, _, on := r.of(c.CPUs); on.IsEmpty() {
			continue
		}
		if c.owns(&r.seen) {
			own++
			involuntary += r.involuntary
			continue
		}
		key := program{r.seen.Kernel, r.seen.Name, r.seen.Cgroup}
		groups[key] = append(groups[key], r)
	}
	for key, tasks := range groups {
		slices.SortFunc(tasks, func(a, b *ran) int {
			return cmp.Or(cmp.Compare(a.seen.ID, b.seen.ID), cmp.Compare(a.seen.Start, b.seen.Start))
		})
		c.sources = append(c.sources, c.together(key, tasks))
	}
	return own, involuntary
}

// together returns the source of tasks of one program.
func (c *container) together(key program, tasks []*ran) Source {
	s := Source{Class: OtherTask, Name: key.name, Cgroup: key.cgroup, Basis: Measured, Tasks: len(tasks)}
	var used time.Duration
	var where cpuset.Builder
	ids := make([]int, len(tasks))
	for i, r := range tasks {
		took, runs, there := r.of(c.CPUs)
		used += took
		s.Count += runs
		where.AddSet(there)
		if ids[i] = r.seen.ID; r.seen.Allowed.IsEmpty() || !c.CPUs.Contains(r.seen.Allowed) {
			s.Basis = Estimated
		}
	}
	if len(ids) == 1 {
		s.ID = strconv.Itoa(ids[0])
	}
	on := where.Set()
	s.CPUs, s.PerSecond, s.Cost = on.String(), rounded(float64(s.Count)/c.seconds), rounded(micro(used)/c.seconds)
	s.WokenBy = c.Causes.ofTasks(ids, c.CPUs)
	if key.kernel {
		s.Class, s.Cgroup, s.Stop = KernelThread, "", c.Settings.stopThread(&tasks[0].seen, on)
	} else {
		s.Stop = c.Settings.stopTask(&tasks[0].seen, on)
	}
	return s
}

// counters adds throttling and the pages that were moved.
func (c *container) counters() {
	if before, after := c.Before.Containers[c.index], c.After.Containers[c.index]; before.Quota && after.Quota {
		n, took := after.Throttled-before.Throttled, after.ThrottledTime-before.ThrottledTime
		if after.Throttled < before.Throttled || took < 0 {
			n, took = after.Throttled, after.ThrottledTime // The cgroup was created again.
		}
		if n > 0 {
			c.sources = append(c.sources, Source{
				Class: Throttled, Name: "its CFS quota: periods in which it had to wait", Count: n, PerSecond: rounded(float64(n) / c.seconds), Cost: rounded(micro(took) / c.seconds),
				Basis: Measured, Stop: "no CFS quota for containers with exclusive CPUs: cpu.max (cpuQuota of the agent, cpuCFSQuota of a kubelet)",
			})
		}
	}
	const stop = "kernel.numa_balancing=0, for the whole node; or memory on one NUMA node (Memory Manager)"
	if before, after := c.Before.Containers[c.index], c.After.Containers[c.index]; before.HasMigrated && after.HasMigrated {
		c.of(grown(before.Migrated, after.Migrated), Source{Class: Migrated, Name: "pages that NUMA balancing moved", Stop: stop})
	} else if c.Before.HasMigrated && c.After.HasMigrated {
		c.of(grown(c.Before.Migrated, c.After.Migrated), Source{Class: Migrated, Name: "pages that NUMA balancing moved on the whole node, not only of this container", Stop: stop})
	}
}

// grown returns by how much a counter grew, or what it has if it was reset.
func grown(from, to uint64) uint64 {
	if to < from {
		return to
	}
	return to - from
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rounded keeps three digits, so that answers can be read.
func rounded(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	unit := math.Pow(10, math.Max(0, 2-math.Floor(math.Log10(math.Abs(x)))))
	return math.Round(x*unit) / unit
}
