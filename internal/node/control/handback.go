package control

import (
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// handingBack makes every container run on all CPUs and all NUMA nodes again, as without Paddock.
type handingBack struct {
	// state has no grants: its node shared pool is all CPUs.
	state *node.State
	// before is of the state until then.
	before *converge.Wanted
}

// HandBack is an event: every container runs on all CPUs and NUMA nodes again. Before is the state
// until then, and Empty one without grants in its place. HandedBack follows when no update is left.
// The answer are the cgroups of the pods' sandboxes, by UID of the pod.
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

// Left is an event: the answer is how many containers do not have their settings.
type Left struct{}

func (Left) on(s *step) {
	s.answer(s.updates(converge.Occasion{}).Differing + s.beingCreated())
}
