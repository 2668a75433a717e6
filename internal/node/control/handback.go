package control

import (
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// handingBack makes every container run on all CPUs and all NUMA nodes again, as without Paddock.
type handingBack struct {
	// state has no grants. Its node shared pool is all CPUs.
	state *node.State
	// before is what the containers should have in the state before the hand-back.
	before *converge.Wanted
}

// HandBack is an event: every container shall run on all CPUs and NUMA nodes again. Before is the
// state until now, and Empty is a state without grants in its place. HandedBack follows when no
// update is left. The answer has the cgroups of the pods' sandboxes by the UID of the pod.
type HandBack struct{ Before, Empty *node.State }

func (e HandBack) on(s *step) {
	s.back = &handingBack{e.Empty, converge.Want(e.Before)}
	s.round()
	parents := map[string][]string{}
	for _, g := range e.Before.Grants() {
		parents[g.Pod.UID] = s.parents(g.Pod.UID)
	}
	s.answer(parents)
}

// Left is an event that asks which containers do not have their settings. The answer is Remaining.
type Left struct{}

// Remaining are the containers that do not have their settings.
type Remaining struct {
	// Containers is their number. Unreachable is the number of those that the updates do not bring
	// there: they are being created, or wait for such a container.
	Containers, Unreachable int
	// Updates are to be made one after the other.
	Updates []CgroupUpdate
}

// CgroupUpdate is an update of a container with the path of its cgroup, as the runtime names it.
type CgroupUpdate struct {
	Path string
	converge.Update
}

func (Left) on(s *step) {
	a, creating := s.updates(converge.Occasion{By: converge.Stepwise}), s.beingCreated()
	s.answer(Remaining{Containers: a.Differing + creating, Unreachable: a.Withheld + creating, Updates: s.located(a.Updates)})
}

// located returns updates with the paths of the cgroups.
func (l *Loop) located(updates []converge.Update) []CgroupUpdate {
	all := make([]CgroupUpdate, 0, len(updates))
	for _, u := range updates {
		all = append(all, CgroupUpdate{l.containers.get(u.ID).path, u})
	}
	return all
}
