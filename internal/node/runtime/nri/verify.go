package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// certain is how long a container must have had wrong settings, and been verified again and again,
// before it counts as unverified although the settings changed meanwhile. Paddock changes those of
// a busy node all the time.
const certain = 10 * time.Second

// late is after how long it is logged that the kubelet lists a container as running that has no
// cgroup: a kubelet that is busy notices the end of a container late. Some runtimes have no cgroups
// for containers. So this is never an alarm.
const late = time.Minute

// overdueAfter is after how many periods without a comparison it is logged that there is none.
const overdueAfter = 6

// Seen is a container that runs, as sources other than the runtime's requests show it.
type Seen struct {
	// Who is the pod's namespace/name. Path is the container's cgroup, as the runtime names it.
	Who, Path string
	converge.Observed
	// Err is why its cgroup cannot be read; nil: Observed has what it shows.
	Err error
}

// Unverified is a running container that does not have the setting that it should have.
type Unverified struct {
	Pod, Container string
	// Why has what it has and what it should have.
	Why string
}

// differing is a container that did not have its setting.
type differing struct {
	since     time.Time
	had, want converge.Setting
	now       Unverified
	// counted: it is unverified. absent: it has no cgroup, which is no difference, and logged once.
	counted, absent, logged bool
}

// inspect compares everything that runs with the state, each Period, whatever the loop believes to
// know: the kubelet lists what runs, and the kernel shows where. It is the comparison of `paddock
// verify`. A container that the loop does not know is learned, and one that the loop believes to be
// right is corrected; both are updated as after a synchronisation. A container that differs is
// verified again soon. If it still differs then, it is unverified: see Status. inspect reports
// whether it began: then it comes before the look at the cgroups, which would repair what it is to
// report.
func (l *loop) inspect() bool {
	now, wait := l.config.Now(), l.config.Period
	if l.inDoubt() {
		wait = soonest
	}
	if l.config.Seen == nil {
		return false
	}
	if now.Sub(l.compared) >= overdueAfter*l.config.Period && now.Sub(l.comparedLog) >= relisted && !l.compared.IsZero() {
		l.comparedLog = now
		l.config.Log.WarnContext(l.flow, "running containers could not be compared with the state for some time", "since", l.compared, "error", l.uncompared)
	}
	if now.Sub(l.checked) < wait || l.running["inspect"] {
		return false
	}
	if l.inDoubt() {
		l.soon()
	}
	paths, touched := map[string]string{}, map[string]int{}
	for id, c := range l.table.containers {
		paths[id], touched[id] = c.path, c.touched
	}
	since := l.since
	if l.compared.IsZero() {
		l.compared = now
	}
	l.job("inspect", func(ctx context.Context) func(*loop) {
		within, cancel := context.WithTimeout(ctx, l.config.Period)
		defer cancel()
		seen, err := l.config.Seen(within, paths)
		return func(l *loop) {
			l.checked = l.config.Now()
			switch {
			case err != nil: // What differed still does, as far as is known.
				l.uncompared = err
			case l.synchronised && l.since.Equal(since) && l.managed():
				l.compared, l.uncompared = l.checked, nil
				l.inspected(seen, touched)
			}
			if l.synchronised && l.managed() {
				l.look()
				l.push()
			}
		}
	})
	return true
}

// inDoubt reports whether a container differs and does not count as unverified yet.
func (l *loop) inDoubt() bool {
	for _, d := range l.differing {
		if !d.counted && !d.absent {
			return true
		}
	}
	return false
}

// inspected is an event: what runs was compared. touched is how often the loop had changed a
// container before the comparison: what has changed since proves nothing about it.
func (l *loop) inspected(seen []Seen, touched map[string]int) {
	before := l.differing
	l.differing = map[string]differing{}
	var observed []converge.Observed
	who := map[string]string{}
	for _, o := range seen {
		if _, ended := l.gone[o.ID]; ended {
			continue
		}
		l.discover(o)
		c := l.table.containers[o.ID]
		switch {
		case c != nil && l.changing(c):
		case errors.Is(o.Err, fs.ErrNotExist):
			l.noCgroup(before, o)
		case o.Err != nil:
			l.differs(before, o.Observed, converge.Setting{}, Unverified{o.Who, o.Container, o.Err.Error()})
		case c != nil && c.touched != touched[o.ID]:
			if d, differed := before[o.ID]; differed {
				l.differing[o.ID] = d
			}
		default:
			if c != nil && c.phase != creating && len(c.sent) == 0 {
				l.sees(c, o.Setting, true)
			}
			who[o.ID] = o.Who
			observed = append(observed, o.Observed)
		}
	}
	for _, d := range l.want().Verify(observed) {
		l.differs(before, d.Observed, d.Want, Unverified{who[d.ID], d.Container, strings.Join(d.Lines(), "; ")})
	}
	for id, d := range before {
		if _, still := l.differing[id]; d.counted && !still {
			l.config.Log.InfoContext(l.flow, "a container is verified again", "pod", d.now.Pod, "container", d.now.Container, "id", id)
		}
	}
	l.config.Observer.Unverified(len(l.unverified()))
	l.publish()
	if l.inDoubt() {
		l.soon()
	}
}

// noCgroup notes a container that the kubelet lists as running and that has no cgroup.
func (l *loop) noCgroup(before map[string]differing, o Seen) {
	at := l.config.Now()
	d, again := before[o.ID]
	if !again || !d.absent {
		d = differing{since: at}
	}
	if !d.logged && at.Sub(d.since) >= late {
		d.logged = true
		l.config.Log.WarnContext(l.flow, "a container runs according to the kubelet and has no cgroup: its CPUs cannot be verified",
			"pod", o.Who, "uid", o.Pod, "container", o.Container, "id", o.ID, "path", o.Path)
	}
	l.differing[o.ID] = differing{since: d.since, absent: true, logged: d.logged}
}

// changing reports whether a container has other settings than its assignment for a reason that
// ends by itself: its pod is being moved or resized, and both have limits of time of their own.
func (l *loop) changing(c *container) bool {
	_, sizing := l.sizing[c.pod]
	return sizing || l.moves[c.pod] != nil || l.config.Now().Before(c.awaited)
}

// discover learns a container that runs and that no request named. One without a cgroup has ended
// since the kubelet listed it.
func (l *loop) discover(o Seen) {
	if l.table.containers[o.ID] != nil || errors.Is(o.Err, fs.ErrNotExist) {
		return
	}
	c := &container{id: o.ID, pod: o.Pod, name: o.Container, path: o.Path, has: o.Setting, begun: true, since: l.config.Now(), who: o.Who, own: l.want().Owns(o.Pod, o.Container)}
	if o.Err != nil {
		c.phase, c.learned = unknown, true
	}
	l.table.containers[o.ID] = c
	l.table.heard[o.Pod] = l.config.Now()
	l.config.Log.WarnContext(l.flow, "a container runs that the runtime did not report: it gets its CPUs now",
		"pod", o.Who, "uid", o.Pod, "container", o.Container, "id", o.ID, "cpus", o.CPUs.String())
}

// differs notes a container that does not have its setting. One that only waits for more CPUs of
// the node shared pool begins again when the pool changes: on a node on which pods come and go all
// the time the pool is never the same, and fewer CPUs are in no other container's way.
func (l *loop) differs(before map[string]differing, o converge.Observed, want converge.Setting, now Unverified) {
	at := l.config.Now()
	d, again := before[o.ID]
	grows := !o.CPUs.IsEmpty() && want.CPUs.Contains(o.CPUs) && !want.CPUs.Equal(o.CPUs) && !l.want().Owns(o.Pod, o.Container)
	if again = again && !d.absent && !(grows && !d.want.Equal(want)); !again {
		d = differing{since: at}
	}
	count := again && (d.counted || d.had.Equal(o.Setting) || at.Sub(d.since) >= certain)
	if count && !d.counted {
		l.config.Log.ErrorContext(l.flow, "a running container does not have the CPUs, memory nodes or quota of its assignment; the agent tries again",
			"pod", now.Pod, "uid", o.Pod, "container", now.Container, "id", o.ID, "difference", now.Why)
	}
	l.differing[o.ID] = differing{since: d.since, had: o.Setting, want: want, counted: count, now: now}
}

// unverified are the containers that count as such, by name.
func (l *loop) unverified() []Unverified {
	var list []Unverified
	for _, id := range slices.Sorted(maps.Keys(l.differing)) {
		if d := l.differing[id]; d.counted {
			list = append(list, d.now)
		}
	}
	return list
}

// Verified returns the first of the containers that do not have their settings, as an error; nil:
// all have, as far as is known.
func (s *Status) Verified() error {
	if len(s.Unverified) == 0 {
		return nil
	}
	u, more := s.Unverified[0], ""
	if n := len(s.Unverified) - 1; n > 0 {
		more = fmt.Sprintf(", and %d others", n)
	}
	return fmt.Errorf("container %s of pod %s%s: %s; the agent tries again, see its log and paddock verify", u.Container, u.Pod, more, u.Why)
}
