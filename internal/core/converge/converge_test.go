package converge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// state returns a node with four cores on one NUMA node, of which CPU 0 is reserved. Pod "own" has
// CPU 1 for its container app and no CPU for log. Pod "other" runs on the node shared pool.
func state(t testing.TB, strict bool, ownCPUs int) *node.State {
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
		{Identity: request.Identity{UID: "own", Name: "own"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "app", Type: request.App, CPUs: ownCPUs}, {Name: "log", Type: request.App}}}},
		{Identity: request.Identity{UID: "other", Name: "other"}, Ask: request.Ask{Containers: []request.Container{{Name: "c", Type: request.App}}}},
	} {
		plan := s.Plan(pod)
		if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatal(err, plan.Rejection)
		}
	}
	return s
}

func observed(pod, container, cpus string, quota quota.Quota) converge.Observed {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return converge.Observed{ID: pod + "/" + container, Pod: pod, Container: container, Setting: converge.Setting{CPUs: set, Quota: quota}}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name     string
		strict   bool
		own      int
		observed []converge.Observed
		want     string
	}{
		{name: "what is right stays", own: 1, observed: []converge.Observed{observed("own", "app", "1", quota.None), observed("own", "log", "0,2-3", 200_000)}, want: ""},
		{
			name: "who gives CPUs up comes before who gets them", own: 1,
			observed: []converge.Observed{observed("own", "app", "", 200_000), observed("own", "log", "2", 200_000), observed("other", "c", "0-3", 200_000)},
			want:     "other/c 0-3→0,2-3; own/app →1 quota none; own/log 2→0,2-3; ",
		},
		{name: "a lost quota update is made again", own: 1, observed: []converge.Observed{observed("own", "app", "1", 200_000)}, want: "own/app 1→1 quota none; "},
		{name: "a quota that is the kubelet's is left alone", own: 1, observed: []converge.Observed{observed("other", "c", "0,2-3", quota.None)}, want: ""},
		{name: "an empty pool is no update", strict: true, own: 3, observed: []converge.Observed{observed("other", "c", "0-3", 200_000)}, want: "stranded other/c; "},
		{name: "an unknown pod is left alone", own: 1, observed: []converge.Observed{observed("gone", "c", "0-3", 200_000), observed("own", "debug", "0-3", 200_000)}, want: "stranger gone/c; stranger own/debug; "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(converge.Want(state(t, c.strict, c.own)).Compare(c.observed)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestCompareWithOfflineCPUs checks that a container stays on its online CPUs and grows back. A
// container without any runs on the node shared pool, with its quota, and no other container gets
// its CPUs.
func TestCompareWithOfflineCPUs(t *testing.T) {
	s := state(t, false, 2) // own/app has 1-2
	all := s.Machine()
	var seen []converge.Observed
	for _, c := range []string{"own/app 1-2", "own/log 0,3", "other/c 0,3"} {
		id, cpus, _ := strings.Cut(c, " ")
		pod, container, _ := strings.Cut(id, "/")
		limit := quota.Keep
		if container == "app" {
			limit = quota.None
		}
		seen = append(seen, observed(pod, container, cpus, limit))
	}
	for _, step := range []struct{ offline, want string }{
		{"2", "own/app 1-2→1; "},
		{"1-2", "own/app 1→0,3; "},
		{"1-3", "other/c 0,3→0; own/app 0,3→0; own/log 0,3→0; "},
		{"1", "own/app 0→2; other/c 0→0,3; own/log 0→0,3; "},
		{"", "own/app 2→1-2; "},
	} {
		offline, err := cpuset.Parse(step.offline)
		if err != nil {
			t.Fatal(err)
		}
		m, err := all.Without(offline)
		if err != nil {
			t.Fatal(err)
		}
		now, err := s.OnMachine(m)
		if err != nil {
			t.Fatal(err)
		}
		report := converge.Want(now).Compare(seen)
		if got := text(report); got != step.want {
			t.Errorf("%q offline: got  %s\nwant %s", step.offline, got, step.want)
		}
		for _, u := range report.Updates {
			for i := range seen {
				if seen[i].ID == u.ID {
					seen[i].Setting = u.After
				}
			}
		}
	}
}

// TestConverged makes the updates and compares again, which must find nothing left to do.
func TestConverged(t *testing.T) {
	s := state(t, false, 1)
	containers := []converge.Observed{observed("own", "app", "0-3", 200_000), observed("own", "log", "0-3", quota.None), observed("other", "c", "1", 200_000)}
	for i := range containers {
		containers[i].Mems = mask.Of(0)
	}
	for _, u := range converge.Want(s).Compare(containers).Updates {
		for i := range containers {
			if containers[i].ID == u.ID {
				containers[i].Setting = u.After
			}
		}
	}
	if again := converge.Want(s).Compare(containers); text(again) != "" {
		t.Errorf("after the updates: %s", text(again))
	}
}

func text(r converge.Report) string {
	s := ""
	for _, u := range r.Updates {
		s += fmt.Sprintf("%s %s→%s", u.ID, u.Before.CPUs, u.After.CPUs)
		if u.After.Quota != u.Before.Quota {
			s += " quota " + u.After.Quota.String()
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

// TestCompareManyContainers checks a pod with too many containers for a linear search: each of them
// is found, and a container of no pod is not.
func TestCompareManyContainers(t *testing.T) {
	s := state(t, false, 1)
	pod := request.Pod{Identity: request.Identity{UID: "many", Name: "many"}, Ask: request.Ask{QoS: request.Guaranteed}}
	var containers []converge.Observed
	for i := range 40 {
		c := request.Container{Name: fmt.Sprintf("c%02d", i), Type: request.App}
		cpus := "0,3"
		if i == 33 {
			c.CPUs, cpus = 1, "0-3"
		}
		pod.Containers = append(pod.Containers, c)
		containers = append(containers, observed("many", c.Name, cpus, quota.Keep))
	}
	s, err := s.Apply(s.Plan(pod))
	if err != nil {
		t.Fatal(err)
	}
	got := text(converge.Want(s).Compare(append(containers, observed("many", "debug", "0-3", quota.Keep))))
	if want := "many/c33 0-3→2 quota none; stranger many/debug; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
