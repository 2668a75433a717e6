package nri

import (
	"errors"
	"time"
)

// unlistedFor is how long a container that CRI-O was creating when it synchronised, and does not
// show, is waited for. Its start makes it known in any case.
const unlistedFor = 10 * time.Second

// Why a container is not created although its pod is admitted.
var (
	errUndone  = errors.New("its creation was cancelled in the meantime; the kubelet tries again")
	errStopped = errors.New("the agent did not run for some time and answers old requests; the kubelet tries again")
)

// outdated is why the creation of a container is not answered any more: the runtime has reported
// its end already, because requests that wait are handled in any order, or the process was stopped
// and the request is probably from that time.
func (l *loop) outdated(c *container) error {
	if _, ended := l.gone[c.id]; ended {
		return errUndone
	}
	l.noteStop()
	if !l.stopped.IsZero() && l.config.Now().Sub(l.resumed) < l.config.Timeout {
		return errStopped
	}
	return nil
}

// learn adds a container that a request names and the table does not have. The runtime created it
// while it was not connected to Paddock, or shortly before it synchronised: CRI-O lists a container
// only after its creation, and does not delay a synchronisation until the creations that are under
// way have ended, as containerd does (NRI's BlockPluginSync). What the container runs on is not
// known: until its cgroup is read, it counts as running everywhere. The next round plans its pod
// and updates it.
func (l *loop) learn(box *sandbox, c *container) {
	_, ended := l.gone[c.id]
	if l.table.containers[c.id] != nil || ended || c.pod == "" || !l.managed() {
		return
	}
	l.meet(box)
	c.phase, c.learned, c.since = creating, true, l.config.Now()
	l.table.containers[c.id] = c
	l.table.heard[c.pod] = c.since
	l.shortly()
	l.config.Log.WarnContext(l.flow, "a container was created without Paddock: it gets its CPUs as soon as it runs",
		"pod", box.who, "uid", c.pod, "container", c.name, "id", c.id)
}

// meet adds the sandbox of a container if it was created without Paddock.
func (l *loop) meet(box *sandbox) {
	if l.table.sandboxes[box.id] == nil {
		l.table.enter(box)
	}
}

// keepGone forgets containers that ended some time ago: no request names them any more. It also
// forgets those of which it is only known that they were in creation when CRI-O synchronised.
func (l *loop) keepGone() {
	for id, c := range l.table.containers {
		if c.phase == creating && !c.unlisted.IsZero() && l.config.Now().Sub(c.unlisted) > unlistedFor {
			delete(l.table.containers, id)
		}
	}
	for id, at := range l.gone {
		if l.config.Now().Sub(at) > creation {
			delete(l.gone, id)
		}
	}
}
