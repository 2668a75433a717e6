package nodemap_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestOfflineCPUsAreMarked uses a pod p with CPUs 1-4. Its container own has 1-2 and its container
// log shares 3-4.
func TestOfflineCPUsAreMarked(t *testing.T) {
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 8 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{
		Identity: request.Identity{UID: "p", Namespace: "default", Name: "p"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 4, BudgetCPUMilli: 4000, CPULimit: 4000,
			Containers: []request.Container{{Name: "own", Type: request.App, CPUs: 2, CPULimit: 2000, Equivalent: true}, {Name: "log", Type: request.App}},
		},
	}
	full := admit(t, s, pod)
	for _, c := range []struct {
		offline                      cpuset.Set
		marked, own, log, quota, tip string
	}{
		{cpuset.Set{}, "", "", "", "none", "4 CPUs 1-4"},
		{cpuset.Of(1), "1", "", "", "none", "4 CPUs 1-4, CPUs 1 offline"},
		{cpuset.Of(1, 2), "1-2", "3-4", "", "2", "2 CPUs 1-2, offline: runs on 3-4"},
		{cpuset.Of(3, 4), "3-4", "", "0,5-7", "none", "2 CPUs 3-4, offline: runs on 0,5-7"},
	} {
		s := full
		if !c.offline.IsEmpty() {
			less, err := m.Without(c.offline)
			if err != nil {
				t.Fatal(err)
			}
			if s, err = full.OnMachine(less); err != nil {
				t.Fatal(err)
			}
		}
		plan := view.PlanOf("m", "p", []*node.Plan{s.Plan(pod)}, s)
		got := plan.Pods[0]
		if got.Offline != c.marked || got.Containers[0].RunsOn != c.own || got.Containers[1].RunsOn != c.log || got.Containers[0].Quota != c.quota {
			t.Errorf("offline %s: marked %q, own runs on %q with quota %s, log on %q", c.offline, got.Offline, got.Containers[0].RunsOn, got.Containers[0].Quota, got.Containers[1].RunsOn)
		}
		if text := plan.Text(terminal.Style{}, false); strings.Contains(text, "degraded: CPUs "+c.marked+" are offline") != (c.marked != "") {
			t.Errorf("offline %s: the plan is\n%s", c.offline, text)
		}
		text := nodemap.Of("m", "p", s, nodemap.NextSlots(nil, nil, s)).Term(terminal.Style{Width: 160})
		if !strings.Contains(text, c.tip) {
			t.Errorf("offline %s: want %q on the map\n%s", c.offline, c.tip, text)
		}
	}
}
