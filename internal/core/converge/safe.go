package converge

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// safe returns the updates that move no container to CPUs that another one may still own or, if the
// container should own them, use. The other updates wait until the CPUs are certainly free. A
// container that waits is taken off the CPUs of others. exchanges is true if there is no such
// order. See Update.
func (f *floor) safe(updates []Update, by Delivery) (safe []Update, withheld int, exchanges bool) {
	if len(updates) == 0 {
		return nil, 0, false
	}
	blocked := map[string]bool{}
	for {
		updates = f.unblocked(updates, blocked, by != Unsolicited)
		safe = updates
		if by == Stepwise {
			safe = f.steps(updates)
		}
		safe = slices.Clone(safe)
		Order(safe)
		safe = f.inTurns(safe)
		if by == Unsolicited {
			return safe, len(blocked), false
		}
		var early []Update
		safe, early = f.inTurn(safe)
		if by == Stepwise {
			return safe, len(blocked), len(early) > 0
		}
		var again bool
		if updates, again = f.hold(updates, early, blocked); !again {
			return safe, len(blocked), len(early) > 0
		}
	}
}

// overstays returns the CPUs on which containers may still run and should not, after the updates
// are made. A container makes room for another one only when it has certainly left its CPUs. made
// is true if each update is certain to be made before the next one.
func (f *floor) overstays(updates []Update, made bool) *crowd {
	after := make(map[string]cpuset.Set, len(updates))
	for _, u := range updates {
		if made && !f.of[u.ID].Flying {
			after[u.ID] = u.After.CPUs
		}
	}
	over := newCrowd(len(f.of))
	for id, c := range f.of {
		may, updated := after[id]
		if !updated {
			may = c.May.CPUs
		}
		over.set(id, c.Owns, f.leaves(c, may))
	}
	return over
}

// blocker returns the container with the smallest ID that may still run on CPUs that another one
// should get, or nil. Containers that share the node shared pool do not block each other.
func (f *floor) blocker(over *crowd, id string, gets cpuset.Set, own bool) *occupant {
	if !over.blocks(id, gets, own) {
		return nil
	}
	var first *occupant
	for other, rest := range over.rest {
		if other != id && (own || rest.own) && (first == nil || other < first.ID) && rest.cpus.Intersects(gets) {
			first = f.of[other]
		}
	}
	return first
}

// unblocked removes or replaces the updates that are not safe, and adds their containers to
// blocked.
func (f *floor) unblocked(updates []Update, blocked map[string]bool, made bool) []Update {
	for more := true; more; {
		more = false
		over := f.overstays(updates, made)
		kept := make([]Update, 0, len(updates))
		for _, u := range updates {
			if blocked[u.ID] || !over.blocks(u.ID, u.After.CPUs, f.takes(u)) {
				kept = append(kept, u)
				continue
			}
			blocked[u.ID], more = true, true
			if off, needed := f.off(u); needed {
				kept = append(kept, off)
			}
		}
		updates = kept
	}
	return updates
}

// inTurn orders updates so that, if possible, each is made after the updates that free its CPUs: a
// container that runs only on CPUs of others moves before another one takes them. If several
// updates can be next, or none can, the order stays. early has the updates that are left when, for
// the first time, none can be next, unless the first of them only leaves CPUs.
func (f *floor) inTurn(updates []Update) (ordered, early []Update) {
	over, owners := newCrowd(len(f.of)), false
	for id, c := range f.of {
		rest := f.leaves(c, c.May.CPUs)
		over.set(id, c.Owns, rest)
		owners = owners || c.Owns && !rest.IsEmpty()
	}
	if !owners && !slices.ContainsFunc(updates, f.takes) {
		return updates, nil // No container owns CPUs.
	}
	q := f.queue(updates)
	ordered = make([]Update, 0, len(updates))
	for len(ordered) < len(updates) {
		next := q.next(over)
		if next < 0 {
			if next = q.first; f.turn(updates[next]) > 0 && early == nil {
				early = q.left()
			}
		}
		u := updates[next]
		ordered = append(ordered, u)
		c := f.of[u.ID]
		q.take(next, over, over.set(u.ID, c.Owns, f.leaves(c, u.After.CPUs)))
	}
	return ordered, early
}

// turn returns the turn of an update: first (0) containers leave CPUs that they do not own, then
// (1) owners take their CPUs, and then (2) the other containers get what is free.
func (f *floor) turn(u Update) int {
	switch {
	case f.takes(u):
		return 1
	case u.Before.CPUs.Contains(u.After.CPUs):
		return 0
	}
	return 2
}

// inTurns sorts updates by turn, and otherwise keeps their order.
func (f *floor) inTurns(updates []Update) []Update {
	var turns [3][]Update
	for _, u := range updates {
		turns[f.turn(u)] = append(turns[f.turn(u)], u)
	}
	return slices.Concat(turns[:]...)
}

// off returns an update, in place of u, that takes a container off the CPUs that others should own,
// or may still own. needed is true if there are such CPUs and the container keeps some others.
func (f *floor) off(u Update) (off Update, needed bool) {
	left, mine := u.Before.CPUs, f.of[u.ID].mine
	for _, p := range f.places { // Its own place excludes nothing.
		if p.own.Intersects(left) || p.other.Intersects(left) {
			left = left.Difference(p.own.Difference(mine.own)).Difference(p.other.Difference(mine.own.Union(mine.other)))
		}
	}
	off = u
	off.After = Setting{CPUs: left, Mems: u.Before.Mems, Quota: u.Before.Quota}
	return off, !left.IsEmpty() && !left.Equal(u.Before.CPUs)
}

// steps inserts, before an update that gives a container the CPUs of others, one that takes it off
// the CPUs that others own.
func (f *floor) steps(updates []Update) []Update {
	steps := make([]Update, 0, len(updates))
	for _, u := range updates {
		if f.turn(u) > 0 {
			if off, needed := f.off(u); needed {
				steps = append(steps, off)
			}
		}
		steps = append(steps, u)
	}
	return steps
}

// hold removes the first update in some that is not blocked yet, or replaces it by one that only
// takes its container off the CPUs of others. It reports whether there is one. A container in phase
// Unknown may have its setting already: it is not moved.
func (f *floor) hold(updates, some []Update, blocked map[string]bool) ([]Update, bool) {
	for _, u := range some {
		off, needed := f.off(u)
		if blocked[u.ID] || !needed {
			continue
		}
		blocked[u.ID] = true
		at := slices.IndexFunc(updates, func(other Update) bool { return other.ID == u.ID })
		if f.of[u.ID].Phase == Unknown {
			return slices.Delete(updates, at, at+1), true
		}
		updates[at] = off
		return updates, true
	}
	return updates, false
}
