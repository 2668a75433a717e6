package plugin

import (
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// TestCacheReasons checks the sentences for nodes whose caches have no room, and which of them no
// preemption changes.
func TestCacheReasons(t *testing.T) {
	s := classtest.State(t)
	for want, change := range map[string]func(p *request.Pod){
		"node(s): 6 ways of L3 do not fit on one NUMA node":                                func(p *request.Pod) { p.Containers[0].Cache = request.Cache{Ways: 6} },
		"node(s): 80% of the memory bandwidth do not fit on one NUMA node":                 func(p *request.Pod) { p.Containers[0].Cache = request.Cache{Ways: 5, Bandwidth: 80} },
		"node(s): the pod cannot have the part of the caches that its annotations ask for": func(p *request.Pod) { p.Containers[0].Cache = request.Cache{Ways: 11} },
	} {
		pod := classtest.Pods()[0]
		pod.UID = "another"
		change(&pod)
		pod.Containers[0].CPUs = 2
		view := fleet.Alone(s)
		answer := view.Ask(&fleet.Pod{Pod: pod})
		if got := (&reasons{}).of(&answer, &pod, s.Policy()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if hopeless(answer.Why.Cause) != (answer.Why.Cause == rejection.CacheUnclear) {
			t.Errorf("%s: preemption helps: %t", answer.Why.Cause, !hopeless(answer.Why.Cause))
		}
	}
	why := reason{fleet.Why{Cause: rejection.NoCache, Resource: request.L3}, 1, node.TopologyNone, false}
	const want = "1 way of L3 is not free in the caches of the free CPUs, or no class of the caches is free"
	if got := why.sentence(&request.Pod{}); got != want || hopeless(why.Cause) {
		t.Errorf("%s, want %s", got, want)
	}
}
