package control

import (
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// certain is how long a container must have had wrong settings in repeated verifications before it
// counts as unverified although the settings changed meanwhile. On a busy node Paddock changes
// settings all the time.
const certain = 10 * time.Second

// lateEnd is the time after which it is logged that the kubelet lists a container as running that
// has no cgroup. A busy kubelet notices the end of a container late, and some runtimes have no
// cgroups for containers. So this is never an alarm.
const lateEnd = time.Minute

// overdueAfter is the number of periods without a comparison after which the loop logs that there
// was none.
const overdueAfter = 6

// Seen is a running container, as sources other than the runtime's requests show it.
type Seen struct {
	// Who is the pod's namespace/name. Path is the container's cgroup, as the runtime names it.
	Who, Path string
	converge.Observed
	// Err is the reason why its cgroup cannot be read. If nil, Observed has what the cgroup shows.
	// Absent is true if there is no cgroup.
	Err    error
	Absent bool
	// Deleted is true if the kubelet lists the pod as being deleted.
	Deleted bool
}

// Unverified is a running container that does not have the setting that it should have.
type Unverified struct {
	Pod, Container string
	// Why describes what the container has and what it should have.
	Why string
}

// differing is a container that does not have its setting.
type differing struct {
	since     time.Time
	had, want converge.Setting
	now       Unverified
	// counted is true if the container counts as unverified. absent is true if the container has no
	// cgroup, which is not a difference. logged is true once that was logged.
	counted, absent, logged bool
}

// inspect compares all running containers with the state, once each Period, independently of what
// the loop believes: the kubelet lists what runs, and the kernel shows where. It is the comparison
// of `paddock verify`. A container that the loop does not know is learned, and a wrong belief about
// a container is corrected. Both are updated as after a synchronisation. A container that differs
// is verified again soon. If it still differs then, it is unverified; see Status. inspect reports
// whether it began. If so, it comes before the look at the cgroups, which would repair what inspect
// has to report.
func (s *step) inspect() bool {
	if !s.config.Seen {
		return false
	}
	wait := s.config.Period
	if s.inDoubt() || s.link.listsLate && !s.link.debt.since.IsZero() {
		wait = soonest // Before a connection is closed for a debt, it is known which containers are being stopped.
	}
	if s.now.Sub(s.compared) >= overdueAfter*s.config.Period && s.now.Sub(s.comparedLog) >= relisted && !s.compared.IsZero() {
		s.comparedLog = s.now
		s.warn("running containers could not be compared with the state for some time", "since", s.compared, "error", s.uncompared)
	}
	if s.now.Sub(s.checked) < wait || s.jobs.get("inspect") != nil {
		return false
	}
	if s.inDoubt() {
		s.soon()
	}
	paths, touched := map[string]string{}, map[string]int{}
	for id, c := range s.containers.all() {
		paths[id], touched[id] = c.path, c.touched
	}
	if s.compared.IsZero() {
		s.compared = s.now
	}
	return s.job("inspect", Inspect{Paths: paths, touched: touched, since: s.link.since})
}

// Inspected is the outcome of Inspect.
type Inspected struct {
	Of   Inspect
	Seen []Seen
	Err  error
}

func (e Inspected) on(s *step) {
	s.checked = s.now
	switch {
	case e.Err != nil: // Containers that differed still differ, as far as the loop knows.
		s.uncompared = e.Err
	case s.link.synchronised() && s.link.since.Equal(e.Of.since) && s.managed():
		s.compared, s.uncompared = s.checked, nil
		s.inspected(e.Seen, e.Of.touched)
	}
	if s.link.synchronised() && s.managed() {
		s.look()
		s.push()
	}
}

// inDoubt reports whether a container differs and does not count as unverified yet.
func (l *Loop) inDoubt() bool {
	for _, d := range l.differing.all() {
		if !d.counted && !d.absent {
			return true
		}
	}
	return false
}

// inspected notes the result of a comparison. touched has, for each container, the number of its
// changes before the comparison. If a container has changed since, the comparison proves nothing
// about it.
func (s *step) inspected(seen []Seen, touched map[string]int) {
	before := s.differing
	s.differing = records[differing]{}
	s.leaveEnded(seen, touched)
	var observed []converge.Observed
	who := map[string]string{}
	for _, o := range seen {
		if s.gone.get(o.ID) != nil {
			continue
		}
		s.discover(o)
		c := s.containers.get(o.ID)
		if c != nil && c.deleted != o.Deleted {
			c = s.containers.edit(s, o.ID)
			c.deleted = o.Deleted
		}
		switch {
		case c != nil && s.changing(c):
		case o.Absent:
			s.noCgroup(before.get(o.ID), o)
		case o.Err != nil:
			s.differs(before.get(o.ID), o.Observed, converge.Setting{}, Unverified{o.Who, o.Container, o.Err.Error()})
		case c != nil && c.touched != touched[o.ID]:
			if d := before.get(o.ID); d != nil {
				s.differing.put(s, o.ID, *d)
			}
		default:
			if c != nil && !c.creating() && len(c.sent) == 0 {
				s.sees(c, o.Setting, true)
			}
			who[o.ID] = o.Who
			observed = append(observed, o.Observed)
		}
	}
	for _, d := range s.want().Verify(observed) {
		s.differs(before.get(d.ID), d.Observed, d.Want, Unverified{who[d.ID], d.Container, strings.Join(d.Lines(), "; ")})
	}
	for id, d := range before.all() {
		if d.counted && s.differing.get(id) == nil {
			s.info("a container is verified again", "pod", d.now.Pod, "container", d.now.Container, "id", id)
		}
	}
	s.do(CountUnverified{len(s.unverified())})
	s.publish()
	if s.inDoubt() {
		s.soon()
	}
}

// leaveEnded removes the containers that have no cgroup and that the kubelet does not list as
// running. They have ended, and the runtime did not report it. A container without a cgroup that
// the kubelet lists may run in a virtual machine.
func (s *step) leaveEnded(seen []Seen, touched map[string]int) {
	runs := make(map[string]bool, len(seen))
	for _, o := range seen {
		runs[o.ID] = true
	}
	s.containers.removeIf(s, func(id string, c *container) bool {
		before, there := touched[id]
		return c.life == ended && !runs[id] && there && before == c.touched
	})
}

// noCgroup notes a container without a cgroup that the kubelet lists as running.
func (s *step) noCgroup(before *differing, o Seen) {
	d := differing{since: s.now}
	if before != nil && before.absent {
		d = *before
	}
	if !d.logged && s.now.Sub(d.since) >= lateEnd {
		d.logged = true
		s.warn("a container runs according to the kubelet and has no cgroup: its CPUs cannot be verified",
			"pod", o.Who, "uid", o.Pod, "container", o.Container, "id", o.ID, "path", o.Path)
	}
	s.differing.put(s, o.ID, differing{since: d.since, absent: true, logged: d.logged})
}

// changing reports whether a container has settings other than its assignment for a reason that
// ends by itself: its pod is being moved or resized. Both have time limits of their own.
func (s *step) changing(c *container) bool {
	p := s.pod(c.pod)
	return !p.sizing.IsZero() || p.move != nil || s.now.Before(c.awaited)
}

// discover learns a running container that no request named. A container without a cgroup has ended
// since the kubelet listed it.
func (s *step) discover(o Seen) {
	if s.containers.get(o.ID) != nil || o.Absent {
		return
	}
	c := container{id: o.ID, pod: o.Pod, name: o.Container, path: o.Path, has: o.Setting, life: begun, since: s.now, who: o.Who, own: s.want().Owns(o.Pod, o.Container)}
	if o.Err != nil {
		c.phase = unseen
	}
	s.containers.put(s, o.ID, c)
	s.heardOf(o.Pod)
	s.warn("a container runs that the runtime did not report: it gets its CPUs now",
		"pod", o.Who, "uid", o.Pod, "container", o.Container, "id", o.ID, "cpus", o.CPUs.String())
}

// differs notes a container that does not have its setting. For a container that only waits for
// more CPUs of the node shared pool, the time starts again when the pool changes. On a node where
// pods come and go all the time the pool is never the same for long, and a container with too few
// CPUs is in no other container's way.
func (s *step) differs(before *differing, o converge.Observed, want converge.Setting, now Unverified) {
	d := differing{since: s.now}
	grows := !o.CPUs.IsEmpty() && want.CPUs.Contains(o.CPUs) && !want.CPUs.Equal(o.CPUs) && !s.want().Owns(o.Pod, o.Container)
	again := before != nil && !before.absent && !(grows && !before.want.Equal(want))
	if again {
		d = *before
	}
	count := again && (d.counted || d.had.Equal(o.Setting) || s.now.Sub(d.since) >= certain)
	if count && !d.counted {
		s.alert("a running container does not have the CPUs, memory nodes or quota of its assignment; the agent tries again",
			"pod", now.Pod, "uid", o.Pod, "container", now.Container, "id", o.ID, "difference", now.Why)
	}
	s.differing.put(s, o.ID, differing{since: d.since, had: o.Setting, want: want, counted: count, now: now})
}

// unverified returns the containers that count as unverified, in the order of their IDs.
func (l *Loop) unverified() []Unverified {
	var list []Unverified
	for _, id := range l.differing.keys() {
		if d := l.differing.get(id); d.counted {
			list = append(list, d.now)
		}
	}
	return list
}
