package node_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestEstimatedPod checks a pod of which only the request as a whole is known. It has one pool
// under scope pod and nothing under scope container, keeps its quota, and loses nothing when one of
// its containers is removed.
func TestEstimatedPod(t *testing.T) {
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 4 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{
		Identity: request.Identity{UID: "u", Namespace: "n", Name: "p"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, Estimated: true,
			BudgetCPUs: 2, BudgetCPUMilli: 2000, CPULimit: 2000, BudgetMemory: request.Amounts{{Resource: machine.Memory, Value: 1 << 20}},
			Containers: []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}},
		},
	}
	for scope, want := range map[node.Scope]string{node.PodScope: "0-1", node.ContainerScope: ""} {
		policy := node.Policy{
			Topology: node.TopologyRestricted, Scope: scope, StaticCPU: true, StaticMemory: true,
			PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
		}
		s, err := node.New(m, policy)
		if err != nil {
			t.Fatal(err)
		}
		plan := s.Plan(pod)
		if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatal(err, plan.Rejection)
		}
		if !strings.Contains(strings.Join(plan.Trace.Notes, "\n"), node.EstimatedNote) {
			t.Errorf("scope %s: it is not said: %q", scope, plan.Trace.Notes)
		}
		s = s.ContainerCreated("u", "app").RemoveContainer("u", "app")
		g, _ := s.Grant("u")
		if g.CPUs().String() != want || g.Containers[0].CPUs.String() != want || quota.PodHasNone(g, policy) || quota.HasNone(g, policy, 0) {
			t.Errorf("scope %s: it holds %s, want %s", scope, g.CPUs(), want)
		}
		if left := s.Release("u"); !left.SharedCPUs().Equal(m.AllCPUs()) || left.Check() != nil {
			t.Errorf("scope %s: released, %s is shared: %v", scope, left.SharedCPUs(), left.Check())
		}
	}
}
