package nri

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// table is what is known of the runtime's pods and containers.
type table struct {
	containers map[string]*container // by runtime id
	sandboxes  map[string]*sandbox   // by runtime id
	// quiet is when something of a pod was last heard, by UID; since is when the table was begun.
	quiet map[string]time.Time
	since time.Time
}

type container struct {
	id, pod, name string
	path          string // of its cgroup, in the runtime's words
	// setting is what it runs on or, while an update is under way, all that it may run on.
	setting converge.Setting
	// next is what it runs on once the update of that operation is through.
	next    converge.Setting
	pending string
	asked   time.Time
	// touched counts changes, so that an older look at it is recognised.
	touched int
}

type sandbox struct {
	id, pod string
	who     string // namespace/name, for people
	parent  string // cgroup of the pod, in the runtime's words
}

func newTable(now time.Time) *table {
	return &table{containers: map[string]*container{}, sandboxes: map[string]*sandbox{}, quiet: map[string]time.Time{}, since: now}
}

// heard notes that something happened to a pod.
func (t *table) heard(pod string, now time.Time) { t.quiet[pod] = now }

// quietSince is when something of the pod was last heard.
func (t *table) quietSince(pod string) time.Time {
	if at, heard := t.quiet[pod]; heard {
		return at
	}
	return t.since
}

func (t *table) hasSandbox(pod string) bool {
	for _, s := range t.sandboxes {
		if s.pod == pod {
			return true
		}
	}
	return false
}

func (t *table) hasContainer(pod string) bool {
	for _, c := range t.containers {
		if c.pod == pod {
			return true
		}
	}
	return false
}

// who is the name of a pod, for people.
func (t *table) who(pod string) string {
	for _, s := range t.sandboxes {
		if s.pod == pod {
			return s.who
		}
	}
	return pod
}

// pods are the UIDs of everything that has a container, ascending.
func (t *table) pods() []string {
	set := map[string]bool{}
	for _, c := range t.containers {
		set[c.pod] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// parents are the cgroups of a pod's sandboxes.
func (t *table) parents(pod string) []string {
	var parents []string
	for _, s := range t.sandboxes {
		if s.pod == pod && s.parent != "" && !slices.Contains(parents, s.parent) {
			parents = append(parents, s.parent)
		}
	}
	slices.Sort(parents)
	return parents
}

// desired is what a container should run on. One of a pod without grant, or that its pod did not have when it
// was admitted, belongs on the node's shared pool.
func desired(s *node.State, pod, name string) converge.Setting {
	if g, known := s.Grant(pod); known {
		if _, i := g.Pod.Container(name); i >= 0 {
			return converge.Desired(s, g, i)
		}
	}
	return converge.Setting{CPUs: s.SharedCPUs()}
}

// compare says which updates make everything run where it should, but for one container; and which
// containers should run on the shared pool, which is empty.
func (t *table) compare(s *node.State, but string) (updates []converge.Update, stranded []converge.Observed) {
	var observed []converge.Observed
	for _, id := range slices.Sorted(maps.Keys(t.containers)) {
		if c := t.containers[id]; id != but {
			observed = append(observed, c.observed(s))
		}
	}
	report := converge.Compare(s, observed)
	updates, stranded = report.Updates, report.Stranded
	for _, o := range report.Strangers {
		after := o.Setting
		if !s.SharedCPUs().IsEmpty() {
			after.CPUs, after.LiftQuota = s.SharedCPUs(), false
		} else if s.Policy().StaticCPU {
			stranded = append(stranded, o)
		}
		if !after.CPUs.Equal(o.CPUs) {
			updates = append(updates, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	updates = append(updates, t.unset(s, observed, updates)...)
	converge.Order(updates)
	return updates, stranded
}

// unset are the updates of containers without a cpuset that should run everywhere, and do: they get one, so
// that what is written is what is wanted.
func (t *table) unset(s *node.State, observed []converge.Observed, updates []converge.Update) []converge.Update {
	var more []converge.Update
	for _, o := range observed {
		if !t.containers[o.ID].setting.CPUs.IsEmpty() || slices.ContainsFunc(updates, func(u converge.Update) bool { return u.ID == o.ID }) {
			continue
		}
		if want := desired(s, o.Pod, o.Container); !want.CPUs.IsEmpty() && want.CPUs.Equal(o.CPUs) {
			more = append(more, converge.Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: want})
		}
	}
	return more
}

// observed is the container as converge sees it. Without a cpuset it runs everywhere. A quota that is
// not there counts as lifted only where it should be: a container may have none of its own.
func (c *container) observed(s *node.State) converge.Observed {
	o := converge.Observed{ID: c.id, Pod: c.pod, Container: c.name, Setting: c.setting}
	if o.CPUs.IsEmpty() && s.Policy().StaticCPU {
		o.CPUs = s.Machine().AllCPUs()
	}
	o.LiftQuota = o.LiftQuota && desired(s, c.pod, c.name).LiftQuota
	return o
}

// expect notes updates that an operation carries.
func (t *table) expect(operation string, updates []converge.Update, now time.Time) {
	for _, u := range updates {
		c := t.containers[u.ID]
		c.setting = either(u.Before, u.After)
		c.next, c.pending, c.asked = u.After, operation, now
		c.touched++
	}
}

// either is what a container may run on that runs on one of two.
func either(a, b converge.Setting) converge.Setting {
	return converge.Setting{CPUs: a.CPUs.Union(b.CPUs), Mems: a.Mems | b.Mems, LiftQuota: a.LiftQuota && b.LiftQuota}
}

// confirm notes that the updates of an operation are through, but for those of the failed containers.
func (t *table) confirm(operation string, failed ...string) {
	for _, c := range t.containers {
		if c.pending != operation {
			continue
		}
		if !slices.Contains(failed, c.id) {
			c.setting = c.next
		}
		c.pending = ""
		c.touched++
	}
}

// waits tells whether an update may still be on its way.
func (c *container) waits(now time.Time) bool { return c.pending != "" && now.Sub(c.asked) < settling }

// settling is after how long a runtime has done, or will never do, what a reply asked for.
const settling = 15 * time.Second

// see takes what the kernel was told. While an update is on its way that may be the old value.
func (c *container) see(file converge.Setting, now time.Time) {
	arrived := file.CPUs.Equal(c.next.CPUs) && file.Mems == c.next.Mems
	if c.waits(now) && !arrived {
		c.setting = either(file, c.next)
		return
	}
	c.setting, c.pending = file, ""
}

// oldest orders pods by when their first container was made: who runs longest is planned first.
func oldest(created map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(created), func(a, b string) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), cmp.Compare(a, b))
	})
}
