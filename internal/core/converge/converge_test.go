package converge_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// state is a machine of four cores on one NUMA node, CPU 0 reserved. Pod "own" has CPU 1 for its
// container app and none for log; pod "other" runs on the node's shared pool.
func state(t *testing.T, strict bool, ownCPUs int) *node.State {
	t.Helper()
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 4 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	policy := node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true, PodLevelResources: true}
	policy.CPU.StrictReservation = strict
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []request.Pod{
		{UID: "own", Name: "own", QoS: request.Guaranteed, Containers: []request.Container{{Name: "app", Lane: request.App, CPUs: ownCPUs}, {Name: "log", Lane: request.App}}},
		{UID: "other", Name: "other", Containers: []request.Container{{Name: "c", Lane: request.App}}},
	} {
		plan := s.Plan(pod)
		if s, err = s.Apply(plan); err != nil || plan.Refusal != nil {
			t.Fatal(err, plan.Refusal)
		}
	}
	return s
}

func observed(pod, container, cpus string, lifted bool) converge.Observed {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return converge.Observed{ID: pod + "/" + container, Pod: pod, Container: container, Setting: converge.Setting{CPUs: set, LiftQuota: lifted}}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name     string
		strict   bool
		own      int
		observed []converge.Observed
		want     string
	}{
		{name: "what is right stays", own: 1, observed: []converge.Observed{observed("own", "app", "1", true), observed("own", "log", "0,2-3", false)}, want: ""},
		{
			name: "who gives CPUs up comes before who gets them", own: 1,
			observed: []converge.Observed{observed("own", "app", "", false), observed("own", "log", "2", false), observed("other", "c", "0-3", false)},
			want:     "other/c 0-3→0,2-3; own/app →1 lifted; own/log 2→0,2-3; ",
		},
		{name: "a lost quota update is made again", own: 1, observed: []converge.Observed{observed("own", "app", "1", false)}, want: "own/app 1→1 lifted; "},
		{name: "a quota is not lifted on shared CPUs", own: 1, observed: []converge.Observed{observed("other", "c", "0,2-3", true)}, want: "other/c 0,2-3→0,2-3; "},
		{name: "an empty pool is no update", strict: true, own: 3, observed: []converge.Observed{observed("other", "c", "0-3", false)}, want: "stranded other/c; "},
		{name: "an unknown pod is left alone", own: 1, observed: []converge.Observed{observed("gone", "c", "0-3", false), observed("own", "debug", "0-3", false)}, want: "stranger gone/c; stranger own/debug; "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(converge.Compare(state(t, c.strict, c.own), c.observed)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestConverged makes the updates and compares again: nothing is left to do.
func TestConverged(t *testing.T) {
	s := state(t, false, 1)
	containers := []converge.Observed{observed("own", "app", "0-3", false), observed("own", "log", "0-3", true), observed("other", "c", "1", false)}
	for i := range containers {
		containers[i].Mems = mask.Of(0)
	}
	for _, u := range converge.Compare(s, containers).Updates {
		for i := range containers {
			if containers[i].ID == u.ID {
				containers[i].Setting = u.After
			}
		}
	}
	if again := converge.Compare(s, containers); text(again) != "" {
		t.Errorf("after the updates: %s", text(again))
	}
}

func text(r converge.Report) string {
	s := ""
	for _, u := range r.Updates {
		s += fmt.Sprintf("%s %s→%s", u.ID, u.Before.CPUs, u.After.CPUs)
		if u.After.LiftQuota {
			s += " lifted"
		}
		s += "; "
	}
	for _, o := range r.Stranded {
		s += "stranded " + o.ID + "; "
	}
	for _, o := range r.Strangers {
		s += "stranger " + o.ID + "; "
	}
	return s
}
