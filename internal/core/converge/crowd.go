package converge

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// crowd has the CPUs on which containers may still run and should not. It answers for one container
// in a time that does not depend on the number of containers: the reply to the creation of one
// container can have an update of every other one.
type crowd struct {
	rest map[string]leaving // by container ID; only containers that leave CPUs
	// all counts every container by CPU. owners counts those that own CPUs, or may own them.
	all, owners counts
}

// leaving has the CPUs that a container leaves, and whether the container owns CPUs, or may own
// them.
type leaving struct {
	cpus cpuset.Set
	own  bool
}

func newCrowd(containers int) *crowd {
	return &crowd{rest: make(map[string]leaving, containers)}
}

// set records the CPUs that a container leaves, in place of those recorded before. It returns the
// CPUs on which the container no longer blocks any other one.
func (w *crowd) set(id string, own bool, rest cpuset.Set) (freed cpuset.Set) {
	before := w.rest[id]
	if before.cpus.Equal(rest) {
		return freed
	}
	w.count(before, -1)
	delete(w.rest, id)
	if now := (leaving{rest, own}); !rest.IsEmpty() {
		w.rest[id] = now
		w.count(now, 1)
	}
	return before.cpus.Difference(rest)
}

func (w *crowd) count(l leaving, by int) {
	w.all.add(l.cpus, by)
	if l.own {
		w.owners.add(l.cpus, by)
	}
}

// blocks reports whether a container other than id may still run on CPUs that id should get.
// Containers that share the node shared pool do not block each other.
func (w *crowd) blocks(id string, gets cpuset.Set, own bool) bool {
	return w.blockedOn(id, gets, own) >= 0
}

// blockedOn returns the lowest of the CPUs for which blocks is true, or -1.
func (w *crowd) blockedOn(id string, gets cpuset.Set, own bool) int {
	if !w.inTheWay(own).some.Intersects(gets) {
		return -1
	}
	for cpu := range gets.All() {
		if w.occupied(id, cpu, own) {
			return cpu
		}
	}
	return -1
}

// occupied is blocks for one CPU.
func (w *crowd) occupied(id string, cpu int, own bool) bool {
	in, others := w.inTheWay(own), 0
	if cpu < len(in.of) {
		others = in.of[cpu]
	}
	if mine := w.rest[id]; (own || mine.own) && mine.cpus.Has(cpu) {
		others--
	}
	return others > 0
}

// inTheWay returns the counts of the containers that block a container that takes CPUs, to own them
// or to share them.
func (w *crowd) inTheWay(own bool) *counts {
	if own {
		return &w.all
	}
	return &w.owners
}

// counts has the number of containers of each CPU.
type counts struct {
	of   []int
	some cpuset.Builder // the CPUs with a number above 0
}

func (n *counts) add(cpus cpuset.Set, by int) {
	if more := cpus.Highest() + 1 - len(n.of); more > 0 {
		n.of = append(n.of, make([]int, more)...)
	}
	for cpu := range cpus.All() {
		switch n.of[cpu] += by; {
		case n.of[cpu] == 0:
			n.some.Remove(cpu)
		case n.of[cpu] == by:
			n.some.Add(cpu)
		}
	}
}

// queue has updates that are made one after the other: each when its CPUs are free, otherwise in
// their order. An update that is blocked on a CPU is examined again when a container leaves that
// CPU, so the whole queue takes linear time in the number of its updates, not quadratic time.
type queue struct {
	updates []Update
	takes   []bool
	states  []queued
	// after has the index of the next update of the same container, or -1. These updates keep their
	// order.
	after []int
	// waiting has the blocked updates by what they wait for.
	waiting map[awaited][]int
	first   int // the first update that is not taken
}

// awaited is a CPU that containers have to leave: all others, or only those that own CPUs.
type awaited struct {
	cpu int
	all bool
}

// queued is the state of an update in a queue.
type queued byte

const (
	later   queued = iota // an update of the same container comes before it
	ready                 // it may be free
	blocked               // it waits for a CPU
	taken
)

func (f *floor) queue(updates []Update) *queue {
	n := len(updates)
	q := &queue{updates: updates, takes: make([]bool, n), states: make([]queued, n), after: slices.Repeat([]int{-1}, n), waiting: map[awaited][]int{}}
	last := make(map[string]int, n)
	for i, u := range updates {
		q.takes[i], q.states[i] = f.takes(u), ready
		if at, there := last[u.ID]; there {
			q.after[at], q.states[i] = i, later
		}
		last[u.ID] = i
	}
	return q
}

// next returns the index of the first update whose CPUs are free, or -1.
func (q *queue) next(over *crowd) int {
	for i := q.first; i < len(q.updates); i++ {
		if q.states[i] != ready {
			continue
		}
		cpu := over.blockedOn(q.updates[i].ID, q.updates[i].After.CPUs, q.takes[i])
		if cpu < 0 {
			return i
		}
		q.states[i] = blocked
		what := awaited{cpu, q.takes[i]}
		q.waiting[what] = append(q.waiting[what], i)
	}
	return -1
}

// take removes an update from the queue. freed has the CPUs that its container leaves with it. An
// update that waits for one of them is examined again when at most one container is left there,
// which may be its own.
func (q *queue) take(i int, over *crowd, freed cpuset.Set) {
	q.states[i] = taken
	if next := q.after[i]; next >= 0 {
		q.states[next] = ready
	}
	for what, waiting := range q.waiting {
		if !freed.Has(what.cpu) || over.inTheWay(what.all).of[what.cpu] > 1 {
			continue
		}
		for _, at := range waiting {
			if q.states[at] == blocked { // A blocked update may have been taken nevertheless.
				q.states[at] = ready
			}
		}
		delete(q.waiting, what)
	}
	for q.first < len(q.states) && q.states[q.first] == taken {
		q.first++
	}
}

// left returns the updates that are not taken, in their order.
func (q *queue) left() []Update {
	var left []Update
	for i, u := range q.updates {
		if q.states[i] != taken {
			left = append(left, u)
		}
	}
	return left
}
