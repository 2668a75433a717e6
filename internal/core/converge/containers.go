package converge

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
)

//go:generate stringer -type=Phase -linecomment -output=enum_string.go

// Phase describes what is known about where a container runs.
type Phase int

const (
	// Settled means that the container has one setting.
	Settled Phase = iota // settled
	// Creating means that the reply to the container's creation is given, and the container may not
	// run yet. An update that is sent now may not reach it: the runtime may not know the container,
	// and containerd 2.4 starts it with the setting with which it was created if the update comes
	// shortly before the start.
	Creating // creating
	// Updating means that a reply or an update that changes the container is under way.
	Updating // updating
	// Unknown means that the container has a part of what it may have. The next look at its cgroup,
	// or the next update, settles it.
	Unknown // unknown
)

// Container is a container with everything that is known about where it runs.
type Container struct {
	// ID is the runtime's ID of the container. Pod is the pod's UID.
	ID, Pod, Name string
	Phase         Phase
	// May is everything that the container may have now or soon. An empty set is no limit: the
	// container runs everywhere. A settled container has exactly this setting.
	May Setting
	// Owns is true while the container has, or may have, its own CPUs or those of its pod's pool.
	Owns bool
	// Flying is true while an unsolicited update of the container is under way: it may be applied
	// after a reply that is decided later.
	Flying bool
	// Missed is true if an update did not reach the container.
	Missed bool
	// Waits is true if the container gets no unsolicited update now: something that is under way
	// may give it its setting.
	Waits bool
}

// Delivery is how a runtime carries out updates.
type Delivery int

const (
	// Unsolicited means that each update may fail, independently of the others.
	Unsolicited Delivery = iota
	// Merged is the reply to a hook. The runtime merges it into one update per container, and makes
	// these in their order. It fails the hook if there are two updates of the same container.
	Merged
	// Stepwise is the reply to Synchronize. The runtime makes one update after the other.
	Stepwise
)

// Occasion describes the message with which updates are sent.
type Occasion struct {
	By Delivery
	// Creates is the container that the reply creates. Resizes is the ID of the container whose
	// resources the kubelet changes: the reply has its setting, in the same write. At most one of
	// them is set, and only with Merged.
	Creates *Container
	Resizes string
	// Strangers returns the quota of a container that is not in its pod's grant, or whose pod has
	// no grant. If nil, the quota stays.
	Strangers func(pod, container string) quota.Quota
}

// Answer is what can be done for the containers now.
type Answer struct {
	// Updates are in the order in which they must be made.
	Updates []Update
	// Differing is the number of containers that do not have their settings and can be updated.
	// Withheld is the number of those that do not get their settings with these updates, because
	// others have to leave the CPUs first.
	Differing, Withheld int
	// Exchanges is true if some of the updates have no safe order. See Update.
	Exchanges bool
	// Stranded are the containers that should run on the node shared pool while it is empty.
	Stranded []Observed
	// Blocker is the container with the smallest ID that, after the updates, may still run on CPUs
	// of the container that the reply creates. It is nil if there is none.
	Blocker *Container
}

// Update returns the updates that bring all containers closer to their settings, in an order that
// is safe after each update: no container gets CPUs that another one may still own, and no
// container gets its own CPUs while another one may still use them. A container that waits for CPUs
// gets another update instead, which takes it off the CPUs of others. So two containers that block
// each other both make room. If updates are made in steps, the answer has both updates.
//
// One case has no safe order: containers that run only on each other's CPUs. A reply then exchanges
// them, and two of them share CPUs between two updates of the reply (Answer.Exchanges).
//
// Containers in creation are not updated, and count like all others. The running time is linear in
// the number of containers and of updates.
func (w *Wanted) Update(containers []Container, on Occasion) Answer {
	f := w.floor(containers)
	compared := f.compare(w, containers, on)
	a := Answer{Stranded: compared.Stranded, Differing: len(compared.Updates)}
	updates := compared.Updates
	if on.By == Unsolicited {
		updates = slices.DeleteFunc(updates, func(u Update) bool { return f.of[u.ID].Waits })
	}
	a.Updates, a.Withheld, a.Exchanges = f.safe(updates, on.By)
	if c := f.of[on.Resizes]; c != nil {
		a.Updates = f.withResized(a.Updates, c, w.Setting(c.Pod, c.Name))
	}
	if on.Creates != nil {
		after := f.overstays(a.Updates, true)
		if by := f.blocker(after, on.Creates.ID, w.Setting(on.Creates.Pod, on.Creates.Name).CPUs, w.Owns(on.Creates.Pod, on.Creates.Name)); by != nil {
			a.Blocker = by.Container
		}
	}
	return a
}

// Takes reports whether an update gives a container the CPUs that it should own.
func (w *Wanted) Takes(u Update) bool {
	return w.Owns(u.Pod, u.Container) && u.After.CPUs.Equal(w.Setting(u.Pod, u.Container).CPUs)
}

// Everywhere returns the CPUs on which a container with this cpuset runs: without cpuset.cpus it
// runs everywhere. The set stays empty if the policy does not manage CPUs.
func (w *Wanted) Everywhere(cpus cpuset.Set) cpuset.Set {
	if cpus.IsEmpty() && w.state.Policy().StaticCPU {
		return w.state.Machine().AllCPUs()
	}
	return cpus
}

// compare returns the updates after which every container has its setting, except the container
// that a reply creates or resizes, and those that no update reaches.
func (f *floor) compare(w *Wanted, containers []Container, on Occasion) Report {
	except := on.Resizes
	if on.Creates != nil {
		except = on.Creates.ID
	}
	var observed []Observed
	for i := range containers {
		if c := &containers[i]; c.ID != except && c.Phase != Creating {
			observed = append(observed, f.observed(c))
		}
	}
	report := w.Compare(observed)
	for _, o := range report.Strangers {
		after, stranded := w.stranger(o, on.Strangers)
		if stranded {
			report.Stranded = append(report.Stranded, o)
		}
		if !after.Equal(o.Setting) {
			report.Updates = append(report.Updates, Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	report.Updates = append(report.Updates, f.unset(w, observed, report.Updates)...)
	Order(report.Updates)
	return report
}

// observed returns the container with everything that it may have, so that it counts as shrinking
// until it has certainly shrunk.
func (f *floor) observed(c *Container) Observed {
	o := Observed{ID: c.ID, Pod: c.Pod, Container: c.Name, Setting: c.May}
	o.CPUs = f.everywhere(o.CPUs)
	return o
}

// stranger returns what a container without an assignment should have. stranded is true if it
// should run on the node shared pool while that is empty.
func (w *Wanted) stranger(o Observed, quotaOf func(pod, container string) quota.Quota) (after Setting, stranded bool) {
	after = o.Setting
	if !w.state.SharedCPUs().IsEmpty() {
		want := w.Setting(o.Pod, o.Container)
		if quotaOf != nil {
			want.Quota = quotaOf(o.Pod, o.Container)
		}
		if after.CPUs = want.CPUs; want.Quota != quota.Keep {
			after.Quota = want.Quota
		}
	} else if w.state.Policy().StaticCPU {
		stranded = true
	}
	if !o.Mems.IsEmpty() {
		after.Mems = w.state.Machine().NodeMask() // It was pinned for a grant that has ended.
	}
	return after, stranded
}

// unset returns the updates of containers that run everywhere because they have no cpuset, and
// should run everywhere: they get the cpuset that is in the state. It also returns the updates of
// containers that missed an earlier one.
func (f *floor) unset(w *Wanted, observed []Observed, updates []Update) []Update {
	updated := make(map[string]bool, len(updates))
	for _, u := range updates {
		updated[u.ID] = true
	}
	var more []Update
	for _, o := range observed {
		c := f.of[o.ID]
		if !c.May.CPUs.IsEmpty() && !c.Missed || updated[o.ID] {
			continue
		}
		if want := w.Setting(o.Pod, o.Container); !want.CPUs.IsEmpty() && (c.Missed || want.CPUs.Equal(o.CPUs)) {
			more = append(more, Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: want})
		}
	}
	return more
}

// withResized adds the update of the container that the kubelet changes in the same write. A
// runtime updates the other containers first, so none of them takes CPUs that this container only
// leaves afterwards. If others have to leave its CPUs first, it stays where it is, and the
// kubelet's quota does not apply.
func (f *floor) withResized(updates []Update, c *occupant, want Setting) []Update {
	own := Update{ID: c.ID, Pod: c.Pod, Container: c.Name, Before: f.observed(c.Container).Setting, After: want}
	own.Before.Quota = quota.Keep // The kubelet writes another quota with this request.
	all, _, _ := f.safe(append(updates[:len(updates):len(updates)], own), Merged)
	if i := slices.IndexFunc(all, func(u Update) bool { return u.ID == c.ID }); i >= 0 {
		return append(updates, all[i])
	}
	if c.Phase == Settled {
		own.After.CPUs, own.After.Mems = c.May.CPUs, c.May.Mems
		updates = append(updates, own)
	}
	return updates
}

// floor has all containers with the CPUs that each should have.
type floor struct {
	of map[string]*occupant // by ID
	// all has the CPUs on which a container without a cpuset runs. It is empty if CPUs are not
	// managed.
	all cpuset.Set
	// places has the CPUs that containers should own, each place once: the containers of a pool own
	// the same CPUs.
	places []places
}

// occupant is a container with the CPUs that it should have.
type occupant struct {
	*Container
	want cpuset.Set // empty if CPUs are not managed, or there are none
	// takes is true if the container should own these CPUs. Then mine has them too.
	takes bool
	mine  places
}

// places are the CPUs that a container should own and, while its pod is being moved, those of the
// other place, on which it may still run alone.
type places struct{ own, other cpuset.Set }

func (w *Wanted) floor(containers []Container) *floor {
	f := &floor{of: make(map[string]*occupant, len(containers)), all: w.Everywhere(cpuset.Set{})}
	all := make([]occupant, len(containers))
	for i := range containers {
		c := &containers[i]
		all[i] = occupant{Container: c, want: w.Setting(c.Pod, c.Name).CPUs, takes: w.Owns(c.Pod, c.Name)}
		if all[i].takes {
			all[i].mine.own = all[i].want
			if g, _ := w.state.Grant(c.Pod); g.Moving != nil {
				_, at := g.Pod.Container(c.Name)
				all[i].mine.other = g.Moving.Containers[at].CPUs
			}
		}
		f.of[c.ID] = &all[i]
	}
	f.findPlaces()
	return f
}

// findPlaces sets places, in the order of the containers' IDs.
func (f *floor) findPlaces() {
	seen := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(f.of)) {
		o := f.of[id]
		if key := o.mine.own.String() + " " + o.mine.other.String(); o.takes && !seen[key] {
			seen[key] = true
			f.places = append(f.places, o.mine)
		}
	}
}

// everywhere is Wanted.Everywhere.
func (f *floor) everywhere(cpus cpuset.Set) cpuset.Set {
	if cpus.IsEmpty() {
		return f.all
	}
	return cpus
}

// leaves returns the CPUs that a container that may run on may leaves when it gets its setting.
func (f *floor) leaves(o *occupant, may cpuset.Set) cpuset.Set {
	return f.everywhere(may).Difference(f.everywhere(o.want))
}

// takes reports whether an update gives a container the CPUs that it should own.
func (f *floor) takes(u Update) bool {
	o := f.of[u.ID]
	return o.takes && u.After.CPUs.Equal(o.want)
}
