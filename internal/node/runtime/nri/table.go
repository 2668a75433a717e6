package nri

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// table is what is known of the runtime's sandboxes and containers. It belongs to the event loop.
type table struct {
	containers map[string]*container // by runtime id
	sandboxes  map[string]*sandbox   // by runtime id
	// boxes are the sandboxes of each pod, by UID, the first by id at the front.
	boxes map[string][]*sandbox
	// heard is the time of a pod's last event, by UID. since is when the table was made.
	heard map[string]time.Time
	since time.Time
}

//go:generate go tool stringer -type=phase -linecomment -output=enum_string.go

// phase is what is known of where a container runs.
type phase int

const (
	// settled: the container has the setting `has`.
	settled phase = iota
	// creating: the reply to its creation is given, and the container may not run yet. An update
	// that is sent now may not reach it: the runtime may not know the container, and containerd 2.4
	// starts it with the setting that it was created with if the update comes shortly before the
	// start.
	creating
	// updating: a reply or an update that changes it is under way.
	updating
	// unknown: the container has a part of `has`. The next look at its cgroup, or the next update,
	// settles it.
	unknown
)

type container struct {
	id, pod, name string
	who           string // the pod's namespace/name, if no request has named its sandbox; else empty
	path          string // of its cgroup, as the runtime names it
	phase         phase
	// has is the setting of the container; in phase unknown it includes all that the container may
	// have. An empty set is no limit: the container runs everywhere.
	has converge.Setting
	// since is when the reply to its creation was given, or when the runtime showed it first.
	since time.Time
	// begun is true once the container was running, or had a cgroup, which it gets when it starts.
	begun bool
	// learned is true for a container that the runtime created without asking, until its cgroup is
	// read: see learn.
	learned bool
	// unlisted is when the runtime synchronised while it created the container, and did not show
	// it; zero: it never did.
	unlisted time.Time
	// sent are the settings that were sent for the container and that it may not have yet. sure is
	// true if there is one, and if the container was settled before it.
	sent []sending
	sure bool
	// replied is the number of the last reply that changed the container. doubted is the number of
	// the last operation whose outcome is open.
	replied, doubted uint64
	// own is true while the container has, or may have, CPUs of its own or of its pod's pool.
	own bool
	// awaited is until when the kubelet is expected to change the container, because its resize was
	// decided.
	awaited time.Time
	// absent is true once the container has no cgroup any more: it has ended. If a plugin fails, a
	// runtime does not report the end to the plugins after it, so such a container does not keep a
	// pod. A container that has not begun may still start, until the kubelet stops waiting for its
	// creation.
	absent bool
	// missed is true for a container in phase updating whose cgroup did not have the setting in
	// time.
	missed bool
	// shown is true once showing, a setting that the container had for certain, was passed to the
	// notices.
	shown   bool
	showing converge.Setting
	// touched counts changes, so that a look that began before a change is recognised.
	touched int
}

// sending is one setting that an operation contains for a container.
type sending struct {
	by    *operation
	after converge.Setting
	own   bool // see container
}

// operation brings settings to the runtime: a reply to a hook, or an unsolicited update.
type operation struct {
	// number orders operations by the time at which the runtime got them.
	number uint64
	// creates is the container whose creation the reply answers. When the runtime has it, the
	// updates in the reply were made. Empty: another reply.
	creates string
	// unsolicited is true for an update that the runtime did not ask for.
	unsolicited bool
	at          time.Time
}

type sandbox struct {
	id, pod string
	who     string // namespace/name, for people
	parent  string // cgroup of the pod, as the runtime names it
	grant   string // the grant that was handed over, as text
}

func newTable(now time.Time) *table {
	return &table{containers: map[string]*container{}, sandboxes: map[string]*sandbox{}, boxes: map[string][]*sandbox{}, heard: map[string]time.Time{}, since: now}
}

// enter adds a sandbox, or replaces it.
func (t *table) enter(box *sandbox) {
	t.leave(box.id)
	t.sandboxes[box.id] = box
	at, _ := slices.BinarySearchFunc(t.boxes[box.pod], box.id, func(b *sandbox, id string) int { return strings.Compare(b.id, id) })
	t.boxes[box.pod] = slices.Insert(t.boxes[box.pod], at, box)
}

// leave takes a sandbox out. It returns nil if it is not there.
func (t *table) leave(id string) *sandbox {
	box := t.sandboxes[id]
	if box == nil {
		return nil
	}
	delete(t.sandboxes, id)
	t.boxes[box.pod] = slices.DeleteFunc(t.boxes[box.pod], func(b *sandbox) bool { return b == box })
	if len(t.boxes[box.pod]) == 0 {
		delete(t.boxes, box.pod)
	}
	return box
}

func (t *table) hasSandbox(pod string) bool { return len(t.boxes[pod]) > 0 }

// sandboxOf is the first sandbox of a pod by id, or one without an id if only a container of the
// pod is known; nil: neither is.
func (t *table) sandboxOf(pod string) *sandbox {
	if boxes := t.boxes[pod]; len(boxes) > 0 {
		return boxes[0]
	}
	for _, c := range t.containers {
		if c.pod == pod && c.who != "" {
			return &sandbox{pod: pod, who: c.who}
		}
	}
	return nil
}

// who is the name of a pod, for people.
func (t *table) who(pod string) string {
	if boxes := t.boxes[pod]; len(boxes) > 0 {
		return boxes[0].who
	}
	return pod
}

// pods are the UIDs of the pods that have a container, ascending.
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
	for _, s := range t.boxes[pod] {
		if s.parent != "" && !slices.Contains(parents, s.parent) {
			parents = append(parents, s.parent)
		}
	}
	slices.Sort(parents)
	return parents
}

// send notes that an operation contains an update of the container.
func (c *container) send(by *operation, after converge.Setting, own bool) {
	c.sure = c.phase == settled && len(c.sent) == 0
	c.sent, c.missed = append(c.sent, sending{by, after, own}), false
	c.own = c.own || own
	if !by.unsolicited {
		c.replied = by.number
	}
	if c.phase != creating {
		c.phase = updating
	}
	c.touched++
}

// started notes that the container runs: updates reach it.
func (c *container) started() {
	c.begun = true
	if c.phase == creating {
		c.touched++
		if c.phase = settled; c.learned {
			c.phase = unknown
		}
	}
}

// made notes that an operation was applied. Replies are applied in the order in which they were
// given, so this one replaces those before it. An unsolicited update waits for the runtime's lock:
// it is not known whether a later reply is applied before it or after it.
func (c *container) made(by *operation) {
	i := len(c.sent) - 1
	for i >= 0 && c.sent[i].by != by { // The last of its settings counts.
		i--
	}
	if i < 0 {
		return
	}
	c.touched++
	if by.unsolicited && c.replied > by.number {
		c.has, c.sent = c.everything(), nil
		c.rest(unknown)
		return
	}
	phase := settled
	if c.doubted > by.number { // It may have been applied after this one.
		c.has, phase = c.everything(), unknown
	} else {
		c.has, c.own = c.sent[i].after, c.sent[i].own
	}
	c.sent = slices.DeleteFunc(c.sent, func(s sending) bool {
		return s.by.number <= by.number && (by.unsolicited || !s.by.unsolicited)
	})
	c.rest(phase)
}

// doubt notes that an operation may have been applied, and will not be applied later.
func (c *container) doubt(by *operation) {
	before := len(c.sent)
	all := c.everything()
	c.sent = slices.DeleteFunc(c.sent, func(s sending) bool { return s.by == by })
	if len(c.sent) == before {
		return
	}
	c.has, c.doubted = all, max(c.doubted, by.number)
	c.touched++
	c.rest(unknown)
}

// rest sets the phase: p if nothing more is under way.
func (c *container) rest(p phase) {
	c.missed = false
	switch {
	case c.phase == creating:
	case len(c.sent) > 0:
		c.phase = updating
	default:
		c.phase = p
	}
}

// see notes what the cgroup shows. While something is under way, the cgroup proves something only
// if it has the setting that was sent last, and if the container did not have that before: then
// everything was applied. If the container had nothing else before, it does not matter. late is
// true if everything should have been applied by now.
func (c *container) see(file converge.Setting, late bool) {
	switch c.phase {
	case settled, unknown:
		c.has, c.phase, c.learned = file, settled, false
	case updating:
		last := c.sent[len(c.sent)-1]
		there := sameCPUs(last.after, file)
		c.missed = late && !there
		if q := last.after.Quota; late && there && q != node.KeepQuota && q != file.Quota {
			c.has.Quota, c.missed = node.KeepQuota, true // The kubelet's came with a resize, and ours did not.
		}
		changed := !sameCPUs(c.has, file)
		same := late && !c.missed && sameCPUs(c.everything(), file) // Applied or not, it has this.
		if there && (changed || same) {
			c.has, c.own, c.sent, c.phase = file, last.own, nil, settled
		}
	case creating:
	}
}

// sameCPUs reports whether two settings have the same CPUs and memory nodes. The kubelet writes
// quotas at any time.
func sameCPUs(a, b converge.Setting) bool { return a.CPUs.Equal(b.CPUs) && a.Mems == b.Mems }

// flying reports whether an unsolicited update of the container is under way.
func (c *container) flying() bool {
	return slices.ContainsFunc(c.sent, func(s sending) bool { return s.by.unsolicited })
}

// everything is all that the container may have now or soon.
func (c *container) everything() converge.Setting {
	all := c.has // What is empty is not limited.
	for _, s := range c.sent {
		next := s.after
		if all.CPUs.IsEmpty() || next.CPUs.IsEmpty() {
			all.CPUs = cpuset.Set{}
		} else {
			all.CPUs = all.CPUs.Union(next.CPUs)
		}
		if all.Mems.IsEmpty() || next.Mems.IsEmpty() {
			all.Mems = 0
		} else {
			all.Mems |= next.Mems
		}
		if all.Quota != next.Quota {
			all.Quota = node.KeepQuota // It is not known.
		}
	}
	return all
}

// waits reports whether a reply that changes the container may still be applied.
func (c *container) waits(now time.Time) bool {
	return slices.ContainsFunc(c.sent, func(s sending) bool { return now.Sub(s.by.at) < resend })
}

// beingCreated is how many containers no update reaches yet.
func (t *table) beingCreated() (n int) {
	for _, c := range t.containers {
		if c.phase == creating {
			n++
		}
	}
	return n
}
