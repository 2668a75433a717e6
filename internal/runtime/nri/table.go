package nri

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// table is what is known of the runtime's sandboxes and containers. It belongs to the event loop.
type table struct {
	containers map[string]*container // by runtime id
	sandboxes  map[string]*sandbox   // by runtime id
	// heard is when the last event of a pod came, by UID; since is when the table was made.
	heard map[string]time.Time
	since time.Time
}

//go:generate go tool stringer -type=phase -linecomment -output=enum_string.go

// phase is what is known of where a container runs.
type phase int

const (
	// settled: the container has what `has` says.
	settled phase = iota
	// creating: the reply to its creation is given, and the runtime may not know the container
	// yet. An update that is sent now does not reach it.
	creating
	// updating: a reply or an update of ours that changes it is under way.
	updating
	// unknown: the container has a part of what `has` says. The next look at its cgroup, or the
	// next update, settles it.
	unknown
)

type container struct {
	id, pod, name string
	path          string // of its cgroup, as the runtime names it
	phase         phase
	// has is what the container has; in phase unknown it is all that it may have. An empty set is
	// not limited: the container runs everywhere.
	has converge.Setting
	// since is when the reply to its creation was given, or when the runtime showed it first.
	since time.Time
	// begun is true once it was seen running, or with a cgroup, which it gets when it starts.
	begun bool
	// told is what the container was told and may not have yet.
	told []telling
	// replied is the number of the last reply that changed the container, doubted that of the last operation
	// of which it is open whether it did.
	replied, doubted uint64
	// own is true while the container has, or may have, CPUs of its own or of its pod's pool.
	own bool
	// absent is true once the container has no cgroup any more: it has ended. A runtime reports the end to no
	// plugin behind one that fails, so such a container does not keep a pod. One that has not begun may
	// still start, until the kubelet has given its creation up.
	absent bool
	// missed is true for a container in phase updating whose cgroup did not have in time what it was told.
	missed bool
	// touched counts changes, so that a look that began before one is recognised.
	touched int
}

// telling is one setting that a container was told by an operation.
type telling struct {
	by    *operation
	after converge.Setting
	own   bool // see container
}

// operation carries settings to the runtime: a reply to a hook, or an update that the runtime
// did not ask for.
type operation struct {
	// number orders operations by when they were handed to the runtime.
	number uint64
	// creates is the container whose creation the reply answers; its creation proves that the
	// updates beside it are made. Empty: another reply.
	creates string
	// unsolicited is true for an update that the runtime did not ask for.
	unsolicited bool
	at          time.Time
}

type sandbox struct {
	id, pod string
	who     string // namespace/name, for people
	parent  string // cgroup of the pod, as the runtime names it
}

func newTable(now time.Time) *table {
	return &table{containers: map[string]*container{}, sandboxes: map[string]*sandbox{}, heard: map[string]time.Time{}, since: now}
}

// quietSince is when the last event of the pod came.
func (t *table) quietSince(pod string) time.Time {
	if at, there := t.heard[pod]; there {
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

// bury drops the containers of a pod that is gone. Those that still run are not among them.
func (t *table) bury(pod string) {
	maps.DeleteFunc(t.containers, func(_ string, c *container) bool { return c.pod == pod && c.absent })
}

// forget drops what is remembered of pods that have neither a sandbox nor a container, and of which
// nothing was heard since then.
func (t *table) forget(before time.Time) {
	maps.DeleteFunc(t.heard, func(pod string, at time.Time) bool {
		return at.Before(before) && !t.hasSandbox(pod) && !t.hasContainer(pod)
	})
}

// tell notes that an operation carries an update for the container.
func (c *container) tell(by *operation, after converge.Setting, own bool) {
	c.told, c.missed = append(c.told, telling{by, after, own}), false
	c.own = c.own || own
	if !by.unsolicited {
		c.replied = by.number
	}
	if c.phase != creating {
		c.phase = updating
	}
	c.touched++
}

// created notes that the runtime has the container now: updates reach it.
func (c *container) created() {
	if c.phase == creating {
		c.phase = settled
		c.touched++
	}
}

// made notes that an operation is carried out. Replies are carried out in the order in which they
// were given, so this one overtakes those before it. An unsolicited update waits for the runtime's
// lock: whether a reply that was given after it was sent is carried out before it or after it
// cannot be known.
func (c *container) made(by *operation) {
	i := len(c.told) - 1
	for i >= 0 && c.told[i].by != by { // The last of what it told counts.
		i--
	}
	if i < 0 {
		return
	}
	c.touched++
	if by.unsolicited && c.replied > by.number {
		c.has, c.told = c.everything(), nil
		c.rest(unknown)
		return
	}
	phase := settled
	if c.doubted > by.number { // It may have been carried out after this one.
		c.has, phase = c.everything(), unknown
	} else {
		c.has, c.own = c.told[i].after, c.told[i].own
	}
	c.told = slices.DeleteFunc(c.told, func(t telling) bool {
		return t.by.number <= by.number && (by.unsolicited || !t.by.unsolicited)
	})
	c.rest(phase)
}

// doubt notes that it is open whether an operation was carried out, and that it will not be later.
func (c *container) doubt(by *operation) {
	before := len(c.told)
	all := c.everything()
	c.told = slices.DeleteFunc(c.told, func(t telling) bool { return t.by == by })
	if len(c.told) == before {
		return
	}
	c.has, c.doubted = all, max(c.doubted, by.number)
	c.touched++
	c.rest(unknown)
}

// rest gives the container the phase that it has when nothing is under way.
func (c *container) rest(p phase) {
	c.missed = false
	switch {
	case c.phase == creating:
	case len(c.told) > 0:
		c.phase = updating
	default:
		c.phase = p
	}
}

// see takes what the cgroup shows. While something is under way, only the setting that was told last tells anything,
// and only if it is not what the container had before: then everything was carried out.
func (c *container) see(file converge.Setting) {
	switch c.phase {
	case settled, unknown:
		c.has, c.phase = file, settled
	case updating:
		last := c.told[len(c.told)-1]
		c.missed = !sameCPUs(last.after, file)
		if !c.missed && !sameCPUs(c.has, file) {
			c.has, c.own, c.told, c.phase = file, last.own, nil, settled
		}
	case creating:
	}
}

// sameCPUs reports whether two settings name the same CPUs and memory nodes. The kubelet writes quotas at any time.
func sameCPUs(a, b converge.Setting) bool { return a.CPUs.Equal(b.CPUs) && a.Mems == b.Mems }

// flying reports whether an unsolicited update of the container is under way.
func (c *container) flying() bool {
	return slices.ContainsFunc(c.told, func(t telling) bool { return t.by.unsolicited })
}

// everything is all that the container may have now or soon.
func (c *container) everything() converge.Setting {
	all := c.has
	for _, t := range c.told {
		all = either(all, t.after)
	}
	return all
}

// waits reports whether a reply that changes the container may still be carried out.
func (c *container) waits(now time.Time) bool {
	return slices.ContainsFunc(c.told, func(t telling) bool { return now.Sub(t.by.at) < resend })
}

// either is what a container may have that has one of two settings. What is empty is not limited.
func either(a, b converge.Setting) converge.Setting {
	var both converge.Setting
	if a.Quota == b.Quota {
		both.Quota = a.Quota // Else it is not known.
	}
	if !a.CPUs.IsEmpty() && !b.CPUs.IsEmpty() {
		both.CPUs = a.CPUs.Union(b.CPUs)
	}
	if !a.Mems.IsEmpty() && !b.Mems.IsEmpty() {
		both.Mems = a.Mems | b.Mems
	}
	return both
}

// oldest orders pods by when their first container was created: who runs longest is planned first.
func oldest(created map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(created), func(a, b string) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), cmp.Compare(a, b))
	})
}

// desired is what a container should have. One of a pod without grant, or one that its pod did not have when
// it was admitted, belongs on the node shared pool.
func desired(s *node.State, pod, name string) converge.Setting {
	return converge.DesiredFor(s, pod, name)
}

// owns reports whether a container has CPUs that are not the node's: its own, or its pod's.
func owns(s *node.State, pod, name string) bool {
	g, known := s.Grant(pod)
	if !known {
		return false
	}
	_, i := g.Pod.Container(name)
	return i >= 0 && g.Isolation(i) != node.HostIsolation
}
