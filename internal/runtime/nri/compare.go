package nri

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// compare returns the updates that make everything run where it should, but for one container and
// for those that no update reaches; and the containers that should run on the node shared pool,
// which is empty. strangers, if it is not nil, has the quota of a container without a grant.
func (t *table) compare(s *node.State, but string, strangers func(pod, name string) node.Quota) (updates []converge.Update, stranded []converge.Observed) {
	var observed []converge.Observed
	for _, id := range slices.Sorted(maps.Keys(t.containers)) {
		if c := t.containers[id]; id != but && c.phase != creating {
			observed = append(observed, c.observed(s))
		}
	}
	report := converge.Compare(s, observed)
	updates, stranded = report.Updates, report.Stranded
	for _, o := range report.Strangers {
		after := o.Setting
		if !s.SharedCPUs().IsEmpty() {
			want := desired(s, o.Pod, o.Container)
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
			after.Mems = s.Machine().NodeMask() // It was pinned for a grant that is no more.
		}
		if !after.Equal(o.Setting) {
			updates = append(updates, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	updates = append(updates, t.unset(s, observed, updates)...)
	converge.Order(updates)
	return updates, stranded
}

// unset are the updates of containers without a cpuset that should run everywhere, and do: they get
// one, so that what is written is what is wanted. And those of containers that were told in time and do not have it.
func (t *table) unset(s *node.State, observed []converge.Observed, updates []converge.Update) []converge.Update {
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
		if want := desired(s, o.Pod, o.Container); !want.CPUs.IsEmpty() && (c.missed || want.CPUs.Equal(o.CPUs)) {
			more = append(more, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: want})
		}
	}
	return more
}

// observed is the container as converge sees it: everything that it may have counts, so that it
// counts as shrinking until it is certain that it has shrunk.
func (c *container) observed(s *node.State) converge.Observed {
	o := converge.Observed{ID: c.id, Pod: c.pod, Container: c.name, Setting: c.everything()}
	o.CPUs = everywhereIfEmpty(o.CPUs, s)
	return o
}

// everywhereIfEmpty is where a container runs: one without cpuset.cpus runs everywhere.
func everywhereIfEmpty(cpus cpuset.Set, s *node.State) cpuset.Set {
	if cpus.IsEmpty() && s.Policy().StaticCPU {
		return s.Machine().AllCPUs()
	}
	return cpus
}

// overstays are, by container, the CPUs that it may run on and should not, once the updates are
// made: nothing but a container that has left its CPUs for certain makes room for another.
// made is false for updates of which it is not certain, when the next of them is made, that those before it are.
func (t *table) overstays(s *node.State, updates []converge.Update, made bool) map[string]cpuset.Set {
	after := map[string]converge.Setting{}
	for _, u := range updates {
		if c := t.containers[u.ID]; made && !c.flying() {
			after[u.ID] = u.After
		}
	}
	over := map[string]cpuset.Set{}
	for id, c := range t.containers {
		may, updated := after[id]
		if !updated {
			may = c.everything()
		}
		rest := everywhereIfEmpty(may.CPUs, s).Difference(everywhereIfEmpty(desired(s, c.pod, c.name).CPUs, s))
		if !rest.IsEmpty() {
			over[id] = rest
		}
	}
	return over
}

// blocker is a container that may still run on CPUs that another one is to get; nil: there is
// none. Among containers that share the node shared pool nobody is in another's way.
func (t *table) blocker(over map[string]cpuset.Set, id string, gets cpuset.Set, own bool) *container {
	for _, other := range slices.Sorted(maps.Keys(over)) {
		c := t.containers[other]
		if other != id && (own || c.own) && over[other].Intersects(gets) {
			return c
		}
	}
	return nil
}

// safe returns the updates that put no container on CPUs that another one may still own or, if the
// container is to own them, use. The others wait until the CPUs are free for certain. In place of
// its update a container that waits gets one that takes it off the CPUs of others, so that two that
// are in each other's way make room for each other.
func (t *table) safe(s *node.State, updates []converge.Update, made bool) (safe []converge.Update, withheld int) {
	blocked, owned := map[string]bool{}, t.owned(s)
	for more := true; more; {
		more = false
		over := t.overstays(s, updates, made)
		kept := make([]converge.Update, 0, len(updates))
		for _, u := range updates {
			if blocked[u.ID] || t.blocker(over, u.ID, u.After.CPUs, takes(s, u)) == nil {
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
	if made {
		updates = inSteps(s, owned, updates)
	}
	converge.Order(updates)
	slices.SortStableFunc(updates, func(a, b converge.Update) int { return turn(s, a) - turn(s, b) })
	if made {
		updates = t.inTurn(s, updates)
	}
	return updates, len(blocked)
}

// inTurn orders updates so that, as far as that is possible, each of them is made when the CPUs that it gives have been
// left by those before it: a container that has nothing of its own left where it runs moves before another takes
// its CPUs. Where several can be next, and where none can, the order stays.
func (t *table) inTurn(s *node.State, updates []converge.Update) []converge.Update {
	home := map[string]cpuset.Set{} // where each container should run
	over, owners := map[string]cpuset.Set{}, map[string]cpuset.Set{}
	set := func(c *container, may cpuset.Set) {
		delete(over, c.id)
		delete(owners, c.id)
		if rest := everywhereIfEmpty(may, s).Difference(home[c.id]); !rest.IsEmpty() {
			if over[c.id] = rest; c.own {
				owners[c.id] = rest
			}
		}
	}
	for id, c := range t.containers {
		home[id] = everywhereIfEmpty(desired(s, c.pod, c.name).CPUs, s)
		set(c, c.everything().CPUs)
	}
	if len(owners) == 0 && !slices.ContainsFunc(updates, func(u converge.Update) bool { return takes(s, u) }) {
		return updates // Nothing is anybody's own.
	}
	free := func(u converge.Update) bool {
		inTheWay := owners
		if takes(s, u) {
			inTheWay = over
		}
		for id, r := range inTheWay {
			if id != u.ID && r.Intersects(u.After.CPUs) {
				return false
			}
		}
		return true
	}
	ordered := make([]converge.Update, 0, len(updates))
	for left := slices.Clone(updates); len(left) > 0; {
		next, passed := 0, map[string]bool{} // Steps of the same container keep their order.
		for i, u := range left {
			if !passed[u.ID] && free(u) {
				next = i
				break
			}
			passed[u.ID] = true
		}
		u := left[next]
		ordered, left = append(ordered, u), slices.Delete(left, next, next+1)
		set(t.containers[u.ID], u.After.CPUs)
	}
	return ordered
}

// beside is safe for the reply to an update of the kubelet's, and own is what is ours in it. A runtime makes the
// updates of the others first, so none of them takes CPUs that the container itself is only about to leave.
func (t *table) beside(s *node.State, others []converge.Update, own converge.Update) []converge.Update {
	others, _ = t.safe(s, others, true)
	all, _ := t.safe(s, append(slices.Clone(others), own), true)
	return append(others, slices.DeleteFunc(all, func(u converge.Update) bool { return u.ID != own.ID })...)
}

// turn is when an update is made: first leave those who own nothing of what they run on, then owners
// take their CPUs, and what is free then goes to the others.
func turn(s *node.State, u converge.Update) int {
	switch {
	case takes(s, u):
		return 1
	case u.After.CPUs.Difference(u.Before.CPUs).IsEmpty():
		return 0
	}
	return 2
}

// takes reports whether an update gives a container the CPUs that it is to own.
func takes(s *node.State, u converge.Update) bool {
	return owns(s, u.Pod, u.Container) && u.After.CPUs.Equal(desired(s, u.Pod, u.Container).CPUs)
}

// inSteps has every container that takes others leave the CPUs of others first.
func inSteps(s *node.State, owned owned, updates []converge.Update) []converge.Update {
	steps := make([]converge.Update, 0, len(updates))
	for _, u := range updates {
		if off, needed := owned.off(u); needed && turn(s, u) > 0 {
			steps = append(steps, off)
		}
		steps = append(steps, u)
	}
	return steps
}

// owned are the CPUs that containers are to own, by container.
type owned map[string]cpuset.Set

func (t *table) owned(s *node.State) owned {
	all := owned{}
	for id, c := range t.containers {
		if owns(s, c.pod, c.name) {
			all[id] = desired(s, c.pod, c.name).CPUs
		}
	}
	return all
}

// off is an update that takes a container off the CPUs that others are to own, in place of u. It
// reports whether there are such, and whether anything is left.
func (o owned) off(u converge.Update) (off converge.Update, needed bool) {
	left := u.Before.CPUs
	for id, cpus := range o {
		if id != u.ID && cpus.Intersects(left) {
			left = left.Difference(cpus.Difference(o[u.ID]))
		}
	}
	off = u
	off.After = converge.Setting{CPUs: left, Mems: u.Before.Mems, Quota: u.Before.Quota}
	return off, !left.IsEmpty() && !left.Equal(u.Before.CPUs)
}
