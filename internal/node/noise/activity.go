package noise

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Activity adds up what tasks did on the watched CPUs between looks. Its zero value with Watched
// set is ready for use.
type Activity struct {
	// Watched are the CPUs of all containers.
	Watched cpuset.Set
	// Looks is how often all tasks were looked at.
	Looks int

	last map[TaskID]brief
	ran  map[TaskID]*ran
}

// brief is what is kept of every task of the machine between two looks.
type brief struct {
	time        time.Duration
	runs        uint64
	involuntary uint64
	switches    bool
	hasRuns     bool
}

// ran is a task that ran on watched CPUs.
type ran struct {
	seen Seen
	on   map[int]time.Duration
	runs map[int]uint64

	involuntary uint64
}

// Add adds a look at all tasks. The first look is only the beginning. The activity keeps no part of
// the argument.
func (a *Activity) Add(tasks []Seen) {
	first := a.Looks == 0
	a.Looks++
	now := make(map[TaskID]brief, len(tasks))
	if a.ran == nil {
		a.ran = map[TaskID]*ran{}
	}
	for i := range tasks {
		t := &tasks[i]
		before, known := a.last[t.TaskID]
		now[t.TaskID] = brief{t.Time, t.Runs, t.Involuntary, t.HasSwitches, t.HasRuns}
		if first || !a.Watched.Has(t.CPU) {
			continue
		}
		a.add(t, before, known)
	}
	a.last = now
}

// add adds what a task did since the look before. A task that was not there began since then.
func (a *Activity) add(t *Seen, before brief, known bool) {
	if known && (t.Time < before.time || t.HasRuns && before.hasRuns && t.Runs < before.runs) {
		return // The counters of a task never fall. These are of two sources that differ.
	}
	used := t.Time - before.time
	var runs uint64
	if t.HasRuns && (before.hasRuns || !known) {
		runs = t.Runs - before.runs
	}
	if used == 0 && runs == 0 {
		return // It last ran here before the first look.
	}
	r := a.ran[t.TaskID]
	if r == nil {
		r = &ran{on: map[int]time.Duration{}, runs: map[int]uint64{}}
		a.ran[t.TaskID] = r
	}
	r.seen = *t
	r.on[t.CPU] += used
	r.runs[t.CPU] += runs
	if t.HasSwitches && (before.switches || !known) && t.Involuntary >= before.involuntary {
		r.involuntary += t.Involuntary - before.involuntary
	}
}

// of returns the CPU time and the runs of a task on CPUs.
func (r *ran) of(cpus cpuset.Set) (used time.Duration, runs uint64, on cpuset.Set) {
	var where cpuset.Builder
	for cpu, n := range r.on {
		if cpus.Has(cpu) {
			used += n
			runs += r.runs[cpu]
			where.Add(cpu)
		}
	}
	return used, runs, where.Set()
}
