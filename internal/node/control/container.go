package control

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// phase is what is known about the setting of a container.
type phase int

const (
	// settled: the container has the setting `has`.
	settled phase = iota
	// coming: the container is being created, and no update reaches it.
	coming
	// learned: as coming, but the runtime created the container without asking; see learn.
	learned
	// unlisted: as coming, but the runtime did not show the container when it synchronised.
	unlisted
	// updating: settings that were sent for the container may not have reached it yet.
	updating
	// missed: as updating, but the cgroup did not have the setting in time.
	missed
	// unknown: the container has a part of `has`. The next look at its cgroup, or the next update,
	// settles it.
	unknown
	// unseen: as unknown, but the runtime created the container without asking. The container
	// counts as running everywhere until its cgroup is read.
	unseen
)

// known returns the phase as package converge sees it.
func (p phase) known() converge.Phase {
	switch p {
	case coming, learned, unlisted:
		return converge.Creating
	case updating, missed:
		return converge.Updating
	case unknown, unseen:
		return converge.Unknown
	case settled:
	}
	return converge.Settled
}

// life is how far a container is in its life cycle.
type life int

const (
	// The zero life: nothing shows that the container runs or ran. It may still start, until the
	// kubelet stops waiting for its creation.
	_ life = iota
	// begun: the container ran, or had a cgroup, which it gets when it starts.
	begun
	// ended: the container no longer has a cgroup. If a plugin fails, a runtime does not report the
	// end to the plugins after it. So such a container does not keep its pod.
	ended
)

// container is what is known about a container. Its slices are not changed in place.
type container struct {
	id, pod, name string
	who           string // the pod's namespace/name if no request has named its sandbox, else empty
	path          string // path of its cgroup, as the runtime names it
	phase         phase
	life          life
	// has is the setting of the container. While the setting is unknown, has includes everything
	// that the container may have. An empty set means no limit: the container runs everywhere.
	has converge.Setting
	// since is when the reply to the container's creation was given, when the runtime showed it
	// first, or when the runtime did not show it.
	since time.Time
	// sent are the settings that were sent for the container and that it may not have yet.
	sent []sending
	// replied is the number of the last reply that changed the container. doubted is the number of
	// the last operation that may or may not have been applied.
	replied, doubted uint64
	// own is true while the container has, or may have, CPUs of its own or of its pod's pool.
	own bool
	// deleted is true if the kubelet lists the pod as being deleted: its containers are being
	// stopped.
	deleted bool
	// awaited is set when a resize of the container was decided: until then the kubelet is expected
	// to change the container.
	awaited time.Time
	// showing is the setting that was last passed to the notices, when the container certainly had
	// it. If nil, none was passed.
	showing *converge.Setting
	// touched counts changes, so that a look is recognised that began before a change.
	touched int
}

// creating reports whether the container is being created, as far as the loop knows.
func (c *container) creating() bool { return c.phase.known() == converge.Creating }

// sending is the setting that one operation has for a container.
type sending struct {
	by    *operation
	after converge.Setting
	own   bool // see container
	// certain is true if the container was settled before.
	certain bool
}

// operation brings settings to the runtime: a reply to a hook, or an unsolicited update. It never
// changes.
type operation struct {
	// number orders operations by the time at which the runtime got them.
	number uint64
	// creates is the container whose creation the reply answers. When the runtime has that
	// container, it has made the updates in the reply. If empty, the operation is another reply or
	// an update.
	creates string
	// unsolicited is true for an update that the runtime did not ask for.
	unsolicited bool
	at          time.Time
}

// send notes that an operation contains an update of the container.
func (c *container) send(by *operation, after converge.Setting, own bool) {
	c.sent = append(slices.Clip(c.sent), sending{by, after, own, c.phase == settled})
	c.own = c.own || own
	if !by.unsolicited {
		c.replied = by.number
	}
	if !c.creating() {
		c.phase = updating
	}
	c.touched++
}

// started notes that the container runs: updates reach it.
func (c *container) started() {
	if c.life = begun; c.creating() {
		c.touched++
		if c.phase == coming {
			c.phase = settled
		} else {
			c.phase = unseen
		}
	}
}

// waitEnds notes that the container counts as created although the runtime never reported it.
func (c *container) waitEnds() {
	if c.phase == coming {
		c.phase = unknown
	} else {
		c.phase = unseen
	}
}

// made notes that an operation was applied. Replies are applied in the order in which they were
// given, so this one replaces those before it. An unsolicited update waits for the runtime's lock,
// so it is not known whether a later reply is applied before or after it.
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
	next := settled
	if c.doubted > by.number { // It may have been applied after this one.
		c.has, next = c.everything(), unknown
	} else {
		c.has, c.own = c.sent[i].after, c.sent[i].own
	}
	c.drop(func(s sending) bool {
		return s.by.number <= by.number && (by.unsolicited || !s.by.unsolicited)
	})
	c.rest(next)
}

// doubt notes that an operation may have been applied, and will not be applied later.
func (c *container) doubt(by *operation) {
	before := len(c.sent)
	all := c.everything()
	c.drop(func(s sending) bool { return s.by == by })
	if len(c.sent) == before {
		return
	}
	c.has, c.doubted = all, max(c.doubted, by.number)
	c.touched++
	c.rest(unknown)
}

// drop removes the sent settings for which which is true.
func (c *container) drop(which func(sending) bool) {
	c.sent = slices.DeleteFunc(slices.Clone(c.sent), which)
}

// rest sets the phase to p if nothing more is under way.
func (c *container) rest(p phase) {
	switch {
	case c.creating():
	case len(c.sent) > 0:
		c.phase = updating
	default:
		c.phase = p
	}
}

// see notes what the cgroup shows. While something is under way, the cgroup proves something only
// if it has the setting that was sent last and the container did not have that setting before. Then
// everything was applied. If the container had no other setting before, the order does not matter.
// late is true if everything should have been applied by now.
func (c *container) see(file converge.Setting, late bool) {
	switch c.phase {
	case settled, unknown, unseen:
		c.has, c.phase = file, settled
	case updating, missed:
		last := c.sent[len(c.sent)-1]
		there := sameCPUs(last.after, file)
		if c.phase = updating; late && !there {
			c.phase = missed
		}
		if q := last.after.Quota; late && there && q != quota.Keep && q != file.Quota {
			c.has.Quota, c.phase = quota.Keep, missed // The kubelet's quota came with a resize, and ours did not.
		}
		changed := !sameCPUs(c.has, file)
		same := late && c.phase != missed && sameCPUs(c.everything(), file) // Applied or not, it has this.
		if there && (changed || same) {
			c.has, c.own, c.sent, c.phase = file, last.own, nil, settled
		}
	case coming, learned, unlisted:
	}
}

// sameCPUs reports whether two settings have the same CPUs and memory nodes. The kubelet writes
// quotas at any time.
func sameCPUs(a, b converge.Setting) bool { return a.CPUs.Equal(b.CPUs) && a.Mems == b.Mems }

// flying reports whether an unsolicited update of the container is under way.
func (c *container) flying() bool {
	return slices.ContainsFunc(c.sent, func(s sending) bool { return s.by.unsolicited })
}

// inReply reports whether an operation has an update of the container that may not have been
// applied yet.
func (c *container) inReply(by *operation) bool {
	return slices.ContainsFunc(c.sent, func(s sending) bool { return s.by == by })
}

// everything returns all that the container may have now or soon.
func (c *container) everything() converge.Setting {
	all := c.has // An empty set means no limit.
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
			all.Quota = quota.Keep // It is not known.
		}
	}
	return all
}

// certain reports whether it is known for certain what the container had before the settings that
// were sent.
func (c *container) certain() bool { return len(c.sent) == 0 || c.sent[len(c.sent)-1].certain }

// waits reports whether a reply that changes the container may still be applied.
func (c *container) waits(now time.Time) bool {
	return slices.ContainsFunc(c.sent, func(s sending) bool { return now.Sub(s.by.at) < resend })
}

// known returns the container as package converge sees it.
func (c *container) known(now time.Time) converge.Container {
	return converge.Container{
		ID: c.id, Pod: c.pod, Name: c.name, Phase: c.phase.known(), May: c.everything(), Owns: c.own, Flying: c.flying(), Missed: c.phase == missed,
		Waits: c.waits(now) || now.Before(c.awaited),
	}
}
