// Package usage measures how much of their CPUs the containers and the CPUs of a node use.
//
// A Meter gets a reading of the kernel's counters from time to time and keeps what was used between
// two readings, for the last Kept intervals. Counters that go back or belong to another cgroup
// begin again: what was used in between is not known, and is left out rather than guessed. A
// container is therefore measured over the intervals that have a number for it, and its answer
// includes how long they were.
//
// A CPU is busy while the kernel runs anything on it, interrupts included. Time that a hypervisor
// took away is neither busy nor idle. The package reads /proc/stat (proc(5)); the cgroups are read
// by internal/node/cgroup.
package usage

import (
	"maps"
	"sync"
	"time"
)

// Kept is the number of intervals that a Meter keeps.
const Kept = 60

// Key names a container: the UID of its pod, and its name.
type Key struct{ UID, Container string }

// Count is the CPU time that a container has used since its cgroup was created.
type Count struct {
	// Cgroup is the name of the cgroup. It is unique while the cgroup exists.
	Cgroup string
	Used   time.Duration
}

// Ticks is the time of one CPU since the start of the kernel, in ticks of proc(5). All is the time
// in which it was busy or idle.
type Ticks struct{ Busy, All uint64 }

// Reading has the counters at one moment.
type Reading struct {
	At         time.Time
	CPUs       map[int]Ticks
	Containers map[Key]Count
}

// unmeasured is the use in an interval that has no number.
const unmeasured = -1

// series has what was used in each interval, in the order of Meter.lengths: CPUs for a container,
// and the busy share for a CPU.
type series [Kept]float32

func unmeasuredSeries() *series {
	var s series
	for i := range s {
		s[i] = unmeasured
	}
	return &s
}

// Meter keeps what was used in the last Kept intervals. Its zero value is empty and ready for use.
// It is safe for concurrent use. It takes about 300 bytes for each container and each CPU.
type Meter struct {
	mu   sync.Mutex
	last Reading
	// lengths is a ring of the lengths of the intervals. next is the position of the next one.
	lengths    [Kept]time.Duration
	next       int
	cpus       map[int]*series
	containers map[Key]*series
}

// Add adds a reading. The meter keeps the maps of the reading. Containers that are not in it are
// forgotten. A reading that is not later than the one before replaces it.
func (m *Meter) Add(r Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	length := r.At.Sub(m.last.At)
	if m.last.At.IsZero() || length <= 0 {
		m.last = r
		return
	}
	if m.cpus == nil {
		m.cpus, m.containers = map[int]*series{}, map[Key]*series{}
	}
	m.lengths[m.next] = length
	measure(m.cpus, r.CPUs, m.next, func(id int, now Ticks) float32 {
		before, known := m.last.CPUs[id]
		if !known || now.All <= before.All || now.Busy < before.Busy {
			return unmeasured
		}
		return min(1, float32(now.Busy-before.Busy)/float32(now.All-before.All))
	})
	measure(m.containers, r.Containers, m.next, func(key Key, now Count) float32 {
		before, known := m.last.Containers[key]
		if !known || now.Cgroup != before.Cgroup || now.Used < before.Used {
			return unmeasured
		}
		return float32(float64(now.Used-before.Used) / float64(length))
	})
	m.next = (m.next + 1) % Kept
	m.last = r
}

// measure writes one interval of all series, and removes the series of what is gone.
func measure[K comparable, C any](all map[K]*series, now map[K]C, at int, use func(K, C) float32) {
	maps.DeleteFunc(all, func(key K, _ *series) bool { _, there := now[key]; return !there })
	for key, count := range now {
		s := all[key]
		if s == nil {
			s = unmeasuredSeries()
			all[key] = s
		}
		s[at] = use(key, count)
	}
}

// Use is what was used, in CPUs.
type Use struct {
	// Mean is over all intervals, and Peak is the mean of the busiest one. Last is that of the
	// newest interval, or Mean if the newest has no number.
	Mean, Peak, Last float64
	// Over is how long was measured. Zero means that nothing is known yet.
	Over time.Duration
}

// Of returns what several containers used together. An interval counts if it has a number for at
// least one of them: a container that did not run used nothing.
func (m *Meter) Of(keys ...Key) Use {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*series, 0, len(keys))
	for _, key := range keys {
		if s := m.containers[key]; s != nil {
			all = append(all, s)
		}
	}
	return m.of(all)
}

// CPUs returns the busy share of each CPU, from 0 to 1, by the CPU's id.
func (m *Meter) CPUs() map[int]Use {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := make(map[int]Use, len(m.cpus))
	for id, s := range m.cpus {
		if u := m.of([]*series{s}); u.Over > 0 {
			of[id] = u
		}
	}
	return of
}

func (m *Meter) of(all []*series) Use {
	var u Use
	newest := (m.next + Kept - 1) % Kept
	known := false
	for i, length := range m.lengths {
		sum, measured := 0.0, false
		for _, s := range all {
			if s[i] != unmeasured {
				sum, measured = sum+float64(s[i]), true
			}
		}
		if !measured {
			continue
		}
		u.Over += length
		u.Mean += sum * length.Seconds()
		u.Peak = max(u.Peak, sum)
		if i == newest {
			u.Last, known = sum, true
		}
	}
	if u.Over > 0 {
		u.Mean /= u.Over.Seconds()
	}
	if !known {
		u.Last = u.Mean
	}
	return u
}

// Newest returns the time of the last reading, and the length of the newest interval. Both are zero
// if there are fewer than two readings.
func (m *Meter) Newest() (at time.Time, length time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if length = m.lengths[(m.next+Kept-1)%Kept]; length == 0 {
		return time.Time{}, 0
	}
	return m.last.At, length
}
