package control

import (
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Noticed is a container with its setting. If nothing limits the container, the setting has every
// CPU and every NUMA node.
type Noticed struct {
	UID, Container string
	Setting        converge.Setting
	// Level describes which other containers run on its CPUs.
	Level node.Isolation
	// Namespace, Pod and Annotations are those of its pod. Mounts are the destinations of the
	// existing mounts of the container. Only the Noticed of a creation has these fields.
	Namespace, Pod string
	Annotations    map[string]string
	Mounts         []string
}

// noticed returns a container with the setting has, as the notices see it.
func (s *step) noticed(c *container, has converge.Setting) Noticed {
	w := s.want()
	state := w.State()
	if has.CPUs = w.Everywhere(has.CPUs); has.CPUs.IsEmpty() {
		has.CPUs = state.Machine().AllCPUs()
	}
	if has.Mems.IsEmpty() {
		has.Mems = state.Machine().NodeMask()
	}
	n := Noticed{UID: c.pod, Container: c.name, Setting: has}
	if g, known := state.Grant(c.pod); known {
		if _, i := g.Pod.Container(c.name); i >= 0 {
			n.Level = g.Isolation(i)
		}
	}
	return n
}

// notify shows the containers the settings that they certainly have, if these have changed.
func (s *step) notify() {
	if !s.config.Notices || !s.link.synchronised() {
		return
	}
	for id, c := range s.containers.all() {
		if c.phase == settled && (c.showing == nil || !sameCPUs(c.has, *c.showing)) {
			has := c.has
			s.containers.edit(s, id).showing = &has
			s.do(Notify{s.noticed(c, has)})
		}
	}
}

// keepNotices passes on which pods exist: those that have a grant, a sandbox or a container.
func (s *step) keepNotices() {
	if !s.config.Notices {
		return
	}
	there := map[string]bool{}
	for _, g := range s.engine.State.Grants() {
		there[g.Pod.UID] = true
	}
	for uid := range s.sandboxes.all() {
		there[uid] = true
	}
	for _, c := range s.containers.all() {
		there[c.pod] = true
	}
	s.do(KeepNotices{there})
}
