package doctor_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
)

// TestEstimatedPodForKubelet checks that a kubelet's file has no entries of pods whose containers
// are not known. It still has the pools of these pods, because CPUs that are in no set prevent a
// kubelet from starting. A remark must report what happens to the pool.
func TestEstimatedPodForKubelet(t *testing.T) {
	m := small(t)
	policy := node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true,
	}
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{
		Identity: request.Identity{UID: "u", Namespace: "n", Name: "p"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, Estimated: true, BudgetCPUs: 1, BudgetCPUMilli: 1000,
			BudgetMemory: request.Amounts{{Resource: machine.Memory, Value: 1 << 10}},
			Containers:   []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}},
		},
	}
	if s, err = s.Apply(s.Plan(pod)); err != nil {
		t.Fatal(err)
	}
	kubelets, remarks, err := doctor.FromPaddock(&statefile.File{Policy: policy, Grants: s.Grants()}, m)
	if err != nil {
		t.Fatal(err)
	}
	if len(remarks) != 1 || remarks[0].UID != "u" || !strings.Contains(remarks[0].What, "estimated from cgroup numbers") {
		t.Errorf("the remarks are %+v", remarks)
	}
	if got := kubelets.CPU.Pools["u"].String(); got != "1" || kubelets.CPU.Default != "0,2-3" {
		t.Errorf("pool %s, default set %s", got, kubelets.CPU.Default)
	}
}
