package quirk_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// TestAgainBeforeThePlugins checks that a restart can reject a pod with an init container that had
// a device, because its device plugin may register later, and no pod whose container with
// the device still runs.
func TestAgainBeforeThePlugins(t *testing.T) {
	at := machine.NodeDescription{ID: 0, Memory: 8 << 30}
	for i := range 4 {
		at.Cores = append(at.Cores, machine.CoreDescription{Uncore: machine.NoUncore, Threads: []int{2 * i, 2*i + 1}})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{at}})
	if err != nil {
		t.Fatal(err)
	}
	k := quirk.New(behavior.Version{Minor: 36, Patch: 4})
	s, err := node.New(m, k.Policy(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0)}, quirk.Setup{}))
	if err != nil {
		t.Fatal(err)
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{"example.com/gpu": {
		{ID: "gpu0", Healthy: true, Nodes: mask.Of(0)}, {ID: "gpu1", Healthy: true, Nodes: mask.Of(0)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	one := request.Amounts{{Resource: "example.com/gpu", Value: 1}}
	pod := func(name string, containers ...request.Container) request.Pod {
		return request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Burstable, Containers: containers}}
	}
	for _, p := range []request.Pod{
		pod("checks", request.Container{Name: "check", Type: request.Init, Devices: one}, request.Container{Name: "app", Type: request.App}),
		pod("runs", request.Container{Name: "app", Type: request.App, Devices: one}),
	} {
		plan, _, _ := k.Admit(s, p)
		if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
			t.Fatalf("%s: %v, %v", p.Name, err, plan.Rejection)
		}
	}
	changed := k.Again(s)
	if len(changed) != 1 || changed[0].Pod != "default/checks" || len(changed[0].Quirks) != 1 {
		t.Fatalf("changed %+v; want one quirk of default/checks", changed)
	}
	if q := changed[0].Quirks[0]; q.ID != quirk.LatePlugins || q.Effect != quirk.Rejected || q.Certain || q.Container != "check" {
		t.Errorf("%+v", q)
	}
}
