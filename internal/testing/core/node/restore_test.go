package node_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// world is the environment in which a node starts: one NUMA node of cpus cores, with 8Gi minus
// missing bytes.
type world struct {
	cpus     int
	offline  int // a CPU that is gone; 0 if none is
	missing  int64
	reserved cpuset.Set
	static   bool
}

func (w world) machine(t *testing.T) *machine.Machine {
	t.Helper()
	d := machine.NodeDescription{Memory: 8*gib - w.missing}
	for id := range w.cpus {
		if id == 0 || id != w.offline {
			d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
		}
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (w world) policy() node.Policy {
	return node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: w.static, ReservedCPUs: w.reserved, StaticMemory: true,
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	}
}

// TestAdopt restarts a node whose pods "one" (CPU 1, 2Gi) and "pool" (CPUs 2-5, 6Gi, of which 2-3
// are its app's) run, in a world that changed.
func TestAdopt(t *testing.T) {
	was := world{cpus: 8, reserved: cpuset.Of(0), static: true}
	for _, c := range []struct {
		name     string
		now      world
		want     string // the pods that are kept, with their CPUs, and the node shared pool
		findings []string
	}{
		{name: "nothing changed", now: was, want: "one 1, pool 2-5, shared 0,6-7"},
		{
			name: "a CPU of the pool's rest is offline", now: world{cpus: 8, offline: 5, reserved: cpuset.Of(0), static: true},
			want:     "one 1, pool 2-5, shared 0,6-7",
			findings: []string{"pod default/pool keeps what it has: CPUs 5 are offline or gone"},
		},
		{
			name: "all CPUs of a container are offline", now: world{cpus: 8, offline: 1, reserved: cpuset.Of(0), static: true},
			want:     "one 1, pool 2-5, shared 0,6-7",
			findings: []string{"pod default/one keeps what it has: CPUs 1 are offline or gone: bring them online"},
		},
		{
			name: "its CPUs are reserved now", now: world{cpus: 8, reserved: cpuset.Of(0, 1), static: true},
			want:     "one 1, pool 2-5, shared 0,6-7",
			findings: []string{"pod default/one keeps what it has: CPUs 1 are reserved for the system now"},
		},
		{
			name: "memory drifted by some KiB", now: world{cpus: 8, missing: 12 << 10, reserved: cpuset.Of(0), static: true},
			want: "one 1, pool 2-5, shared 0,6-7",
			findings: []string{
				"pod default/pool keeps what it has: pods have 12Ki of memory more on NUMA node 0 than is there: nothing, if it is a few KiB",
			},
		},
		{
			name: "the CPU policy is none now", now: world{cpus: 8},
			want:     "one 1, pool 2-5, shared ",
			findings: []string{"pod default/one keeps what it has: the CPU policy is none now", "pod default/pool keeps what it has: the CPU policy is none now"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { testAdopt(t, grants(t, was), c.now, c.want, c.findings) })
	}
}

func testAdopt(t *testing.T, grants []*node.Grant, now world, want string, findings []string) {
	t.Helper()
	m := now.machine(t)
	none, err := device.NewInventory(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, found, err := node.Adopt(m, now.policy(), none, grants)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, g := range s.Grants() {
		got += g.Pod.Name + " " + g.CPUs().String() + ", "
	}
	if got += "shared " + s.SharedCPUs().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(found) != len(findings) {
		t.Errorf("findings %v, want %d", found, len(findings))
	}
	for i := range min(len(found), len(findings)) {
		if !strings.HasPrefix(found[i].String(), findings[i]) {
			t.Errorf("finding %d: %s\nwant %s…", i, found[i], findings[i])
		}
	}
	for _, g := range s.Grants() {
		s = s.Release(g.Pod.UID)
	}
	if err := s.Check(); err != nil || len(s.Grants()) != 0 {
		t.Errorf("after all pods are gone: %v", err)
	}
	empty, err := node.New(m, now.policy())
	if err != nil || !empty.SharedCPUs().Equal(s.SharedCPUs()) || !empty.Memory().Equal(s.Memory()) {
		t.Errorf("the node is not as new: %v, shared %s", err, s.SharedCPUs())
	}
}

func grants(t *testing.T, w world) []*node.Grant {
	t.Helper()
	s, err := node.New(w.machine(t), w.policy())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []request.Pod{
		{
			Identity: request.Identity{UID: "one", Namespace: "default", Name: "one"}, Ask: request.Ask{
				QoS:        request.Guaranteed,
				Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 1, Memory: request.Amounts{{Resource: "memory", Value: 2 * gib}}}},
			},
		},
		{
			Identity: request.Identity{UID: "pool", Namespace: "default", Name: "pool"}, Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.PodLevel,
				BudgetCPUs: 4, BudgetCPUMilli: 4000, BudgetMemory: request.Amounts{{Resource: "memory", Value: 6 * gib}},
				Containers: []request.Container{
					{Name: "app", Type: request.App, CPUs: 2, Memory: request.Amounts{{Resource: "memory", Value: gib}}, Equivalent: true},
					{Name: "log", Type: request.App},
				},
			},
		},
	} {
		plan := s.Plan(pod)
		if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatal(err, plan.Rejection)
		}
	}
	return s.Grants()
}

// TestRestoreKubelet checks that what a kubelet has assigned is taken as it is, also when that is
// more memory than there is: a managed node would not have assigned it.
func TestRestoreKubelet(t *testing.T) {
	was := world{cpus: 8, reserved: cpuset.Of(0), static: true}
	all := grants(t, was)
	less := was
	less.missing = gib
	if _, err := node.Restore(less.machine(t), less.policy(), all); err == nil || !strings.Contains(err.Error(), "of memory on NUMA node 0, and") {
		t.Errorf("by all rules: %v", err)
	}
	s, err := node.RestoreKubelet(less.machine(t), less.policy(), all)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Grants(); len(got) != len(all) || !got[0].SameAssignments(all[0]) {
		t.Errorf("%d of %d grants, the first is %+v", len(got), len(all), got[0])
	}
}
