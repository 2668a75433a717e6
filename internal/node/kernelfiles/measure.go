package kernelfiles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

const (
	// lookEvery is the time between two looks at all tasks. The time that a look takes is at most a
	// tenth of that between two looks, whatever the number of tasks.
	lookEvery    = time.Second
	timesOfALook = 10
)

// Watch is how to measure.
type Watch struct {
	FS         FS
	Containers []noise.Container
	// For is how long.
	For time.Duration
	// Self is the process that is left out.
	Self int
	// Since returns the time since a moment, and After is that of package time.
	Since func() time.Duration
	After func(time.Duration) <-chan time.Time
}

// Online returns the online CPUs.
func (f FS) Online() (cpuset.Set, error) {
	set, err := list(f.path("sys/devices/system/cpu/online"))
	if err == nil && set.IsEmpty() {
		err = errors.New(f.path("sys/devices/system/cpu/online") + ": no CPU is online")
	}
	return set, err
}

// Measure measures. If ctx ends earlier, it measures until then. The result has no causes and no
// source of containers.
func (w *Watch) Measure(ctx context.Context) *noise.Measurement {
	n := &notes{}
	var watched cpuset.Set
	for i := range w.Containers {
		watched = watched.Union(w.Containers[i].CPUs)
	}
	looker := &Looker{FS: w.FS, Watched: watched, Self: w.Self}
	m := &noise.Measurement{
		Containers: w.Containers, Activity: &noise.Activity{Watched: watched}, Settings: w.FS.settings(w.Containers, n),
	}
	m.Activity.Add(looker.Look())
	m.Before = w.snapshot(watched, n)
	begin := m.Before.At
	for ctx.Err() == nil {
		left := begin + w.For - w.Since()
		if left <= 0 {
			break
		}
		from := w.Since()
		if from > begin { // The first look was just now.
			m.Activity.Add(looker.Look())
		}
		select {
		case <-ctx.Done():
		case <-w.After(min(left, max(lookEvery, timesOfALook*(w.Since()-from)))):
		}
	}
	m.Activity.Add(looker.Look())
	m.After = w.snapshot(watched, n)
	w.notSeen(m, looker, n)
	m.NotSeen = n.list
	return m
}

// snapshot reads the counts.
func (w *Watch) snapshot(watched cpuset.Set, n *notes) *noise.Snapshot {
	s := &noise.Snapshot{At: w.Since(), CPUs: watched.IDs()}
	s.Interrupts = w.FS.interrupts(s.CPUs, n)
	var err error
	if s.Softirqs, err = w.FS.rows("proc/softirqs", s.CPUs); err != nil {
		n.missing("softirqs", err, "there is no /proc/softirqs")
	}
	s.Containers = make([]noise.Counters, len(w.Containers))
	for i := range w.Containers {
		s.Containers[i] = w.FS.counters(&w.Containers[i])
	}
	if values, err := w.FS.keyed(w.FS.path("proc/vmstat")); err == nil {
		s.Migrated, s.HasMigrated = values["numa_pages_migrated"]
	}
	return s
}

// notSeen adds what this way of measuring does not show.
func (w *Watch) notSeen(m *noise.Measurement, l *Looker, n *notes) {
	switch {
	case l.failed != nil:
		n.missing("tasks", l.failed, "there is no /proc below "+w.FS.path(""))
	case !l.kernel:
		n.add("kernel threads and the tasks of other containers", "this process sees only the processes of its own container: run on the host, or with hostPID: true")
	}
	if l.cut {
		n.add("tasks beyond the first "+fmt.Sprint(mostTasks), "there are more tasks than one look reads")
	}
	for i := range w.Containers {
		c := &w.Containers[i]
		if c.Cgroup != "" && !m.Before.Containers[i].Quota {
			n.add("throttling of "+c.Pod+" "+c.Name, "its cgroup has no counts in cpu.stat")
		}
	}
	offline := m.Activity.Watched
	for _, rows := range [][]noise.Row{m.After.Softirqs, m.After.Interrupts} {
		if len(rows) > 0 {
			offline = cpuset.Set{}
			for i, cpu := range m.After.CPUs {
				if rows[0].Counts[i] == noise.Unknown {
					offline = offline.Union(cpuset.Of(cpu))
				}
			}
		}
	}
	if !offline.IsEmpty() && (len(m.After.Interrupts) > 0 || len(m.After.Softirqs) > 0) {
		n.add("interrupts on CPUs "+offline.String(), "these CPUs are offline, or do not exist")
	}
	n.list = slices.Clip(n.list)
}
