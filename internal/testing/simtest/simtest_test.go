package simtest_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// state returns a node with four CPUs, of which CPU 0 is reserved. Its pod own has CPU 1 for its
// container app.
func state(t *testing.T) *node.State {
	t.Helper()
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 4 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []request.Pod{
		{Identity: request.Identity{UID: "own", Name: "own"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "init", Type: request.Init, CPUs: 1}, {Name: "app", Type: request.App, CPUs: 1}}}},
		{Identity: request.Identity{UID: "other", Name: "other"}, Ask: request.Ask{Containers: []request.Container{{Name: "c", Type: request.App}}}},
	} {
		if s, err = s.Apply(s.Plan(pod)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func event(kind sim.Kind, hook, pod, container, cpus string) sim.Event {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return sim.Event{Kind: kind, Hook: hook, ID: pod + "/" + container, Pod: pod, Container: container, Setting: converge.Setting{CPUs: set}}
}

// keeps returns the event without cpuset.cpus in its message.
func keeps(e sim.Event) sim.Event {
	e.KeepsCPUs = true
	return e
}

// TestChecker checks that each history is valid, or broken by its last message.
func TestChecker(t *testing.T) {
	const create, send = "CreateContainer", "UpdateContainers"
	own, shared, everywhere := event(sim.Replied, create, "own", "app", "1"), event(sim.Replied, create, "other", "c", "0,2-3"), event(sim.Replied, create, "other", "c", "0-3")
	for name, c := range map[string]struct {
		events []sim.Event
		broken bool
	}{
		"apart":                             {[]sim.Event{own, shared}, false},
		"created on CPUs of another":        {[]sim.Event{own, everywhere}, true},
		"created where another runs":        {[]sim.Event{everywhere, own}, true},
		"room is made first":                {[]sim.Event{everywhere, event(sim.Updated, create, "other", "c", "0,2-3"), own}, false},
		"room was made, and that was lost":  {[]sim.Event{everywhere, event(sim.Lost, create, "other", "c", "0,2-3"), own}, false},
		"room was made too early":           {[]sim.Event{everywhere, event(sim.Ignored, create, "other", "c", "0,2-3"), own}, false},
		"an update is overtaken":            {[]sim.Event{own, shared, event(sim.Updated, send, "other", "c", "0-3")}, true},
		"the other one has ended":           {[]sim.Event{everywhere, event(sim.Stopped, "", "other", "c", "0-3"), own}, false},
		"the other one was undone":          {[]sim.Event{everywhere, event(sim.Undone, "", "other", "c", "0-3"), own}, false},
		"created without a plugin":          {[]sim.Event{own, event(sim.Replied, "", "other", "c", "")}, false},
		"a lost update, then a quota":       {[]sim.Event{everywhere, event(sim.Lost, create, "other", "c", "0,2-3"), own, keeps(event(sim.Updated, "UpdateContainer", "other", "c", ""))}, false},
		"a quota, then the same CPUs":       {[]sim.Event{own, shared, keeps(event(sim.Updated, "UpdateContainer", "other", "c", "")), event(sim.Updated, send, "other", "c", "0-3")}, true},
		"that is repaired in any order":     {[]sim.Event{event(sim.Replied, "", "own", "app", ""), event(sim.Replied, "", "other", "c", ""), event(sim.Updated, "Synchronize", "own", "app", "1")}, false},
		"an init container's CPUs are used": {[]sim.Event{event(sim.Replied, create, "own", "init", "1"), own}, false},
	} {
		s := state(t)
		checker := simtest.NewChecker(func() *node.State { return s })
		for i, e := range c.events {
			if err := checker.Err(); err != nil {
				t.Errorf("%s: broken before event %d: %v", name, i, err)
			}
			checker.Observe(e)
		}
		if err := checker.Err(); (err != nil) != c.broken {
			t.Errorf("%s: %v, want broken %t", name, err, c.broken)
		}
	}
}

// TestCheckerOfMoves checks that a pod that is being moved owns the CPUs of either place as soon as
// it is assigned them.
func TestCheckerOfMoves(t *testing.T) {
	s := state(t)
	g, _ := s.Grant("own")
	s, err := s.BeginMove(scenario.Elsewhere(s, g).Grant)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"1", "2"} {
		checker := simtest.NewChecker(func() *node.State { return s })
		checker.Observe(event(sim.Replied, "CreateContainer", "own", "app", at))
		checker.Observe(event(sim.Replied, "CreateContainer", "other", "c", "0,3"))
		if err := checker.Err(); err != nil {
			t.Error(err)
		}
		checker.Observe(event(sim.Updated, "UpdateContainers", "other", "c", "0,3,"+at))
		if checker.Err() == nil {
			t.Errorf("CPU %s is shared while it is the pod's", at)
		}
	}
}

// TestAtRest checks that the error names containers that run on other CPUs.
func TestAtRest(t *testing.T) {
	observed := func(pod, container, cpus string, lifted bool) converge.Observed {
		e := event(sim.Created, "", pod, container, cpus)
		e.Setting.Quota = quota.Of(1000)
		if lifted {
			e.Setting.Quota = quota.None
		}
		return converge.Observed{ID: e.ID, Pod: pod, Container: container, Setting: e.Setting}
	}
	for want, all := range map[string][]converge.Observed{
		"":                                 {observed("own", "app", "1", true), observed("other", "c", "0,2-3", true), observed("unknown", "c", "0,2-3", false)},
		`own/app (own/app) runs on "2"`:    {observed("own", "app", "2", true)},
		`other/c (other/c) runs on "0-3"`:  {observed("other", "c", "0-3", false)},
		"own/app (own/app) has memory":     {observed("own", "app", "1", false)},
		`unknown/c (unknown/c) runs on ""`: {observed("unknown", "c", "", false)},
	} {
		err := simtest.AtRest(state(t), all)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
