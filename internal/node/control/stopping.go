package control

import (
	"errors"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// This file is about runtimes that are blocked by a container that stops. While CRI-O 1.36 stops a
// container, from the stop signal until the last process has ended, it has a lock of that
// container. It takes the same lock to list the container for a plugin that synchronises, and to
// update the container. Meanwhile it has the lock under which it asks plugins. So a new connection,
// or a reply with an update of such a container, stops all creations on the node, for up to the
// grace period of the slowest pod. The runtime does not report the beginning of a stop. But the
// kubelet lists pods that are being deleted, and Inspect reads that list.
//
// For such a container the loop does not ask the runtime. A reply has no update of it, and the
// agent writes its cgroup itself (WriteCgroups). A creation that needs its CPUs fails, and the
// kubelet tries again. A debt (see owe) is then paid in the same way, and not with a new
// connection.
//
// The loop does not know of a stop that the kubelet has decided alone: after a failed probe, for an
// eviction, or in the time since the last Inspect. Then creations wait as long as the runtime does.

// isStopping reports whether the runtime may be stopping a container and is blocked by that.
func (l *Loop) isStopping(c *container) bool { return l.link.listsLate && c.deleted && c.life != ended }

// stops reports whether the runtime may be blocked by a container that it stops. One without a
// cgroup counts, too: it may run in a virtual machine.
func (l *Loop) stops() bool {
	if l.link.listsLate {
		for _, c := range l.containers.all() {
			if c.deleted {
				return true
			}
		}
	}
	return false
}

// mayDun reports whether the connection may be closed because updates wait for a reply. It may not
// while the runtime creates something, or stops a container that blocks it, for at most as long as
// a kubelet waits for a creation.
func (s *step) mayDun() bool {
	d := &s.link.debt
	return !d.since.IsZero() && (s.now.Sub(d.since) >= owing<<d.dunned+creation || !s.stops() && !s.underWay())
}

// writable returns the updates that the agent can make itself, because it knows the cgroups. If
// stopping is set, it returns only those of containers that are being stopped.
func (s *step) writable(updates []converge.Update, stopping bool) []converge.Update {
	return slices.DeleteFunc(slices.Clone(updates), func(u converge.Update) bool {
		c := s.containers.get(u.ID)
		return c == nil || c.path == "" || stopping && !s.isStopping(c)
	})
}

// fly notes an update that the runtime did not ask for.
func (s *step) fly(by *operation, updates []converge.Update, direct bool) {
	s.flight = &flight{by: by, updates: updates, direct: direct}
	w := s.want()
	for i := range updates {
		u := &updates[i]
		s.containers.edit(s, u.ID).send(by, u.After, w.Takes(*u))
	}
}

// writeCgroups makes updates without the runtime. Each of them is safe by itself, as an unsolicited
// update. The runtime's own specification of a container stays as it was. That does not matter,
// because every reply about the container has its setting.
func (s *step) writeCgroups(updates []converge.Update) {
	by := s.begin("", true)
	s.fly(by, updates, true)
	s.do(WriteCgroups{by.number, s.located(updates)})
}

// blocked logs, once, that the kernel does not finish a write of cgroups. Nothing can end it. Other
// containers are updated in replies only until it ends.
func (s *step) blocked(f flight) {
	if f.blocked || s.now.Sub(f.by.at) < landing {
		return
	}
	f.blocked = true
	s.flight = &f
	s.alert("the kernel does not finish writing the CPUs of containers to their cgroups: until it does, containers get other CPUs only when the runtime asks",
		"containers", len(f.updates), "for", landing.String())
}

// keepWrites notes again, after the runtime has shown its containers, the writes of cgroups that
// are under way. The end of a connection does not end them.
func (s *step) keepWrites() {
	if f := s.flight; f != nil {
		s.fly(f.by, s.writable(f.updates, false), true)
	}
}

// WriteCgroups writes the settings of containers to their cgroups, because the runtime cannot
// update them now. Its outcome is Landed. It waits for the kernel, which has no time limit.
type WriteCgroups struct {
	Number  uint64
	Updates []CgroupUpdate
}

func (WriteCgroups) action() {}

// Carry makes the updates with set, in their order. set returns no error for a container that has
// ended.
func (a WriteCgroups) Carry(set func(path string, s converge.Setting) error) Landed {
	landed := Landed{Number: a.Number}
	for i := range a.Updates {
		u := &a.Updates[i]
		after := u.After
		if after.Quota == u.Before.Quota {
			after.Quota = quota.Keep // The kubelet may be writing another quota at this moment.
		}
		if err := set(u.Path, after); err != nil {
			landed.Failed, landed.Err = append(landed.Failed, u.ID), errors.Join(landed.Err, err)
		}
	}
	return landed
}

// connectingFor returns how long a runtime may take to synchronise after the connection began. One
// that is blocked by a container that stops synchronises after that. A new connection would not be
// faster, and every closed one would delay the next.
func (l *link) connectingFor() time.Duration {
	if l.listsLate {
		return creation
	}
	return registering
}
