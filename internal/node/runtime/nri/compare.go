package nri

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// compare returns the updates after which every container has its setting, except one container and
// those that no update reaches. stranded are the containers that belong on the node shared pool
// while it is empty. strangers, if it is not nil, returns the quota of a container without a grant.
func (t *table) compare(w *converge.Wanted, except string, strangers func(pod, name string) node.Quota) (updates []converge.Update, stranded []converge.Observed) {
	s := w.State()
	var observed []converge.Observed
	for _, id := range slices.Sorted(maps.Keys(t.containers)) {
		if c := t.containers[id]; id != except && c.phase != creating {
			observed = append(observed, c.observed(s))
		}
	}
	report := w.Compare(observed)
	updates, stranded = report.Updates, report.Stranded
	for _, o := range report.Strangers {
		after := o.Setting
		if !s.SharedCPUs().IsEmpty() {
			want := w.Setting(o.Pod, o.Container)
			if strangers != nil {
				want.Quota = strangers(o.Pod, o.Container)
			}
			if after.CPUs = want.CPUs; want.Quota != node.KeepQuota {
				after.Quota = want.Quota
			}
		} else if s.Policy().StaticCPU {
			stranded = append(stranded, o)
		}
		if !o.Mems.IsEmpty() {
			after.Mems = s.Machine().NodeMask() // It was pinned for a grant that has ended.
		}
		if !after.Equal(o.Setting) {
			updates = append(updates, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	updates = append(updates, t.unset(w, observed, updates)...)
	converge.Order(updates)
	return updates, stranded
}

// unset are the updates of containers that run everywhere because they have no cpuset, and should
// run everywhere: they get the cpuset that is in the state. It also returns the updates of
// containers that missed an earlier one.
func (t *table) unset(w *converge.Wanted, observed []converge.Observed, updates []converge.Update) []converge.Update {
	updated := map[string]bool{}
	for _, u := range updates {
		updated[u.ID] = true
	}
	var more []converge.Update
	for _, o := range observed {
		c := t.containers[o.ID]
		if !c.everything().CPUs.IsEmpty() && !c.missed || updated[o.ID] {
			continue
		}
		if want := w.Setting(o.Pod, o.Container); !want.CPUs.IsEmpty() && (c.missed || want.CPUs.Equal(o.CPUs)) {
			more = append(more, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: want})
		}
	}
	return more
}

// observed is the container as converge sees it: with everything that it may have, so that it
// counts as shrinking until it has shrunk for certain.
func (c *container) observed(s *node.State) converge.Observed {
	o := converge.Observed{ID: c.id, Pod: c.pod, Container: c.name, Setting: c.everything()}
	o.CPUs = everywhereIfEmpty(o.CPUs, s)
	return o
}

// everywhereIfEmpty is what a container runs on: one without cpuset.cpus runs everywhere.
func everywhereIfEmpty(cpus cpuset.Set, s *node.State) cpuset.Set {
	if cpus.IsEmpty() && s.Policy().StaticCPU {
		return s.Machine().AllCPUs()
	}
	return cpus
}

// overstays are the CPUs that containers may still run on and should not, once the updates are
// made. A container makes room for another one only when it has left its CPUs for certain. made is
// true if each update is certain to be made before the next one.
func (t *table) overstays(w *converge.Wanted, updates []converge.Update, made bool) *crowd {
	after := map[string]converge.Setting{}
	for _, u := range updates {
		if c := t.containers[u.ID]; made && !c.flying() {
			after[u.ID] = u.After
		}
	}
	over := newCrowd(len(t.containers))
	for id, c := range t.containers {
		may, updated := after[id]
		if !updated {
			may = c.everything()
		}
		over.set(c, leaves(w, c, may.CPUs))
	}
	return over
}

// leaves are the CPUs that a container leaves when it has its setting, if it may run on those now.
func leaves(w *converge.Wanted, c *container, may cpuset.Set) cpuset.Set {
	return everywhereIfEmpty(may, w.State()).Difference(everywhereIfEmpty(w.Setting(c.pod, c.name).CPUs, w.State()))
}

// blocker is the container with the smallest ID that may still run on CPUs that another one is to
// get; nil: there is none. Containers that share the node shared pool do not block each other.
func (t *table) blocker(over *crowd, id string, gets cpuset.Set, own bool) *container {
	if !over.blocks(id, gets, own) {
		return nil
	}
	var first *container
	for other, rest := range over.rest {
		if other != id && (own || rest.own) && (first == nil || other < first.id) && rest.cpus.Intersects(gets) {
			first = t.containers[other]
		}
	}
	return first
}

// delivery is how a runtime carries out updates.
type delivery int

const (
	// unsolicited: each update may fail, whatever happens to the others.
	unsolicited delivery = iota
	// merged: the reply to a hook. The runtime merges it into one update a container, fails the
	// hook if there are two of the same container, and makes them in their order.
	merged
	// stepwise: the reply to Synchronize. The runtime makes one update after the other.
	stepwise
)

// safe returns the updates that move no container to CPUs that another one may still own or, if the
// container is to own them, use. The other updates wait until the CPUs are free for certain. A
// container that waits gets another update instead: one that takes it off the CPUs of others, so
// that two containers that block each other both make room. If updates are made in steps, both come
// in the same reply.
func (t *table) safe(w *converge.Wanted, updates []converge.Update, by delivery) (safe []converge.Update, withheld int) {
	if len(updates) == 0 {
		return nil, 0
	}
	blocked, owned := map[string]bool{}, t.owned(w)
	for {
		updates = t.unblocked(w, updates, owned, blocked, by != unsolicited)
		safe = updates
		if by == stepwise {
			safe = owned.steps(w, updates)
		}
		safe = slices.Clone(safe)
		converge.Order(safe)
		safe = inTurns(w, safe)
		if by == unsolicited {
			return safe, len(blocked)
		}
		var early []converge.Update
		safe, early = t.inTurn(w, safe)
		if by == stepwise {
			return safe, len(blocked)
		}
		var again bool
		if updates, again = t.hold(updates, early, owned, blocked); !again {
			return safe, len(blocked)
		}
	}
}

// unblocked takes the updates that are not safe out, or replaces them, and adds their containers to
// blocked.
func (t *table) unblocked(w *converge.Wanted, updates []converge.Update, owned owned, blocked map[string]bool, made bool) []converge.Update {
	for more := true; more; {
		more = false
		over := t.overstays(w, updates, made)
		kept := make([]converge.Update, 0, len(updates))
		for _, u := range updates {
			if blocked[u.ID] || !over.blocks(u.ID, u.After.CPUs, takes(w, u)) {
				kept = append(kept, u)
				continue
			}
			blocked[u.ID], more = true, true
			if off, needed := owned.off(u); needed {
				kept = append(kept, off)
			}
		}
		updates = kept
	}
	return updates
}

// inTurn orders updates so that, if possible, each is made after the updates that free its CPUs: a
// container that runs only on CPUs of others moves before another one takes them. If several
// updates can be next, or none can, the order stays. early are the updates that are left when none
// can be next for the first time, unless the first of them only leaves CPUs.
func (t *table) inTurn(w *converge.Wanted, updates []converge.Update) (ordered, early []converge.Update) {
	over, owners := newCrowd(len(t.containers)), false
	for _, c := range t.containers {
		rest := leaves(w, c, c.everything().CPUs)
		over.set(c, rest)
		owners = owners || c.own && !rest.IsEmpty()
	}
	if !owners && !slices.ContainsFunc(updates, func(u converge.Update) bool { return takes(w, u) }) {
		return updates, nil // No container owns CPUs.
	}
	q := newQueue(w, updates)
	ordered = make([]converge.Update, 0, len(updates))
	for len(ordered) < len(updates) {
		next := q.next(over)
		if next < 0 {
			if next = q.first; turn(w, updates[next]) > 0 && early == nil {
				early = q.left()
			}
		}
		u := updates[next]
		ordered = append(ordered, u)
		q.take(next, over, over.set(t.containers[u.ID], leaves(w, t.containers[u.ID], u.After.CPUs)))
	}
	return ordered, early
}

// turn orders updates: first containers leave CPUs that they do not own, then owners take their
// CPUs, and then the other containers get what is free.
func turn(w *converge.Wanted, u converge.Update) int {
	switch {
	case takes(w, u):
		return 1
	case u.Before.CPUs.Contains(u.After.CPUs):
		return 0
	}
	return 2
}

// inTurns puts updates into the order of their turns, and otherwise keeps their order.
func inTurns(w *converge.Wanted, updates []converge.Update) []converge.Update {
	var turns [3][]converge.Update
	for _, u := range updates {
		turns[turn(w, u)] = append(turns[turn(w, u)], u)
	}
	return slices.Concat(turns[:]...)
}

// takes reports whether an update gives a container the CPUs that it is to own.
func takes(w *converge.Wanted, u converge.Update) bool {
	return w.Owns(u.Pod, u.Container) && u.After.CPUs.Equal(w.Setting(u.Pod, u.Container).CPUs)
}

// owned are the CPUs that containers are to own: by container, and each of them once. The
// containers of a pool own the same.
type owned struct {
	of  map[string]places
	all []places
}

// places are the CPUs that a container is to own and, while its pod is being moved, those of the
// other place, on which it may still run alone.
type places struct{ own, other cpuset.Set }

func (t *table) owned(w *converge.Wanted) owned {
	all := owned{of: make(map[string]places, len(t.containers))}
	seen := map[string]bool{}
	for id, c := range t.containers {
		if !w.Owns(c.pod, c.name) {
			continue
		}
		p := places{own: w.Setting(c.pod, c.name).CPUs}
		if g, _ := w.State().Grant(c.pod); g.Moving != nil {
			_, i := g.Pod.Container(c.name)
			p.other = g.Moving.Containers[i].CPUs
		}
		all.of[id] = p
		if key := p.own.String() + " " + p.other.String(); !seen[key] {
			seen[key] = true
			all.all = append(all.all, p)
		}
	}
	return all
}

// off returns an update, in place of u, that takes a container off the CPUs that others are to own,
// or may still own. needed is true if there are such CPUs, and if the container keeps others.
func (o owned) off(u converge.Update) (off converge.Update, needed bool) {
	left, mine := u.Before.CPUs, o.of[u.ID]
	for _, p := range o.all { // Its own place takes nothing away.
		if p.own.Intersects(left) || p.other.Intersects(left) {
			left = left.Difference(p.own.Difference(mine.own)).Difference(p.other.Difference(mine.own.Union(mine.other)))
		}
	}
	off = u
	off.After = converge.Setting{CPUs: left, Mems: u.Before.Mems, Quota: u.Before.Quota}
	return off, !left.IsEmpty() && !left.Equal(u.Before.CPUs)
}

// steps adds, before an update that gives a container the CPUs of others, one that takes it off
// what others own.
func (o owned) steps(w *converge.Wanted, updates []converge.Update) []converge.Update {
	steps := make([]converge.Update, 0, len(updates))
	for _, u := range updates {
		if turn(w, u) > 0 {
			if off, needed := o.off(u); needed {
				steps = append(steps, off)
			}
		}
		steps = append(steps, u)
	}
	return steps
}

// hold takes out the first of some updates that is not blocked yet, or replaces it by one that only
// takes its container off the CPUs of others. It reports whether there is one. A container whose
// setting is open may have it already: it is not moved.
func (t *table) hold(updates, some []converge.Update, owned owned, blocked map[string]bool) ([]converge.Update, bool) {
	for _, u := range some {
		off, needed := owned.off(u)
		if blocked[u.ID] || !needed {
			continue
		}
		blocked[u.ID] = true
		at := slices.IndexFunc(updates, func(other converge.Update) bool { return other.ID == u.ID })
		if t.containers[u.ID].phase == unknown {
			return slices.Delete(updates, at, at+1), true
		}
		updates[at] = off
		return updates, true
	}
	return updates, false
}
