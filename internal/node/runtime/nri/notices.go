package nri

import (
	"context"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Notices show containers what they have. No method but Open waits.
type Notices interface {
	// Open makes the notice of a container that is created, before ctx ends. It returns what to
	// mount in the container; no Source: nothing.
	Open(ctx context.Context, c Noticed) Mount
	// Changed notes what a container has for certain.
	Changed(c Noticed)
	// Keep notes the UIDs of the pods that are there. The caller does not change the map.
	Keep(pods map[string]bool)
}

// Noticed is a container with its setting: every CPU and every NUMA node if nothing limits it.
type Noticed struct {
	UID, Container string
	Setting        converge.Setting
	// Level is who else runs on its CPUs.
	Level node.Isolation
	// Namespace, Pod and Annotations are those of its pod, Mounts the destinations of what is
	// mounted in the container already; only Open has them.
	Namespace, Pod string
	Annotations    map[string]string
	Mounts         []string
}

// Mount is a directory of the host, and where a container has it, read-only.
type Mount struct{ Source, Destination string }

// options are those of the mount of a notice.
var options = []string{"bind", "ro", "nosuid", "nodev", "noexec", "rprivate"}

// noticed is a container as the notices see it.
func (l *loop) noticed(c *container, has converge.Setting) Noticed {
	s := l.state()
	has.CPUs = everywhereIfEmpty(has.CPUs, s)
	if has.CPUs.IsEmpty() {
		has.CPUs = s.Machine().AllCPUs()
	}
	if has.Mems.IsEmpty() {
		has.Mems = s.Machine().NodeMask()
	}
	n := Noticed{UID: c.pod, Container: c.name, Setting: has}
	if g, known := s.Grant(c.pod); known {
		if _, i := g.Pod.Container(c.name); i >= 0 {
			n.Level = g.Isolation(i)
		}
	}
	return n
}

// keepNotices notes which pods are there: those that have a grant, a sandbox or a container.
func (l *loop) keepNotices() {
	if l.config.Notices == nil {
		return
	}
	there := map[string]bool{}
	for _, g := range l.config.Engine.State().Grants() {
		there[g.Pod.UID] = true
	}
	for _, box := range l.table.sandboxes {
		there[box.pod] = true
	}
	for _, uid := range l.table.pods() {
		there[uid] = true
	}
	l.config.Notices.Keep(there)
}
